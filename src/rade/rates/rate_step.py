"""One rate step: clean pass → what the last layer sends → variance → R and its gradient norm → rule → new rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass, clean_gradient_norm, gradient_norm, regulariser
from rade.rates.rules import Logits, Seen
from rade.rates.state import RateState


class Passes(Protocol):
    """The passes of a model that a rate step may ask for; none is made unless the rule reads what it gives.

    Attributes:
        nodes: [k] of the rows of the logits, where not every node has one; known after a pass.
    """

    nodes: Tensor | None

    def clean(self, labelled: Labelled) -> CleanPass:
        """Over the input graph, in evaluation mode, with gradients, and with what its last convolution sends."""

    def prediction(self) -> Tensor:
        """The logits of the same, without gradients."""

    def mean(self) -> Tensor:
        """The logits on the mean over views, without gradients; the prediction but for RADE-OFS."""

    def trained(self, graph: Graph) -> Tensor | None:
        """The logits of the training step that has just been on a graph, row by row like those of these passes."""


def rate_step(
    state: RateState,
    readout: Readout,
    labelled: Labelled,
    distribution: Distribution,
    parameters: Sequence[Parameter],
    passes: Passes,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Move the rates by what the rule reads of the training step that has just been; returns the clean logits.

    Args:
        state: the rates and whatever else the rule keeps; changed in place.
        readout, labelled: how logits are judged, and the rows that the loss was taken over.
        distribution: of the views at the present rates.
        parameters: of the model, with the gradients that the training step left.
        passes: of the model.
        generator: for the random signs that `Readout(loss=...)` is differentiated with; it is not advanced.
    """
    rule, trained_on = state.rule, distribution.graph
    reads = rule.reads if rule.adapts else ()
    on_clean = "data_norm" in reads and rule.data_gradient == "clean"
    clean = passes.clean(labelled) if "regulariser" in reads or on_clean else None
    plain = passes.prediction() if clean is None else clean.logits.detach()
    if not rule.adapts:
        return plain
    if clean is not None and clean.graph is not distribution.graph:  # a model that changes its edges at random
        distribution = replace(distribution, graph=clean.graph)
    balance = norm = logits = None
    if clean is not None and "regulariser" in reads:  # from what the last layer sends, by way of the variance
        balance = regulariser(clean, readout, labelled, distribution, parameters, generator)
    if clean is not None and on_clean:
        norm = clean_gradient_norm(clean.logits, labelled, parameters)
    elif "data_norm" in reads:
        norm = gradient_norm(parameters)
    if "logits" in reads:
        mean = passes.mean() if distribution.variant.keeps_additions else plain
        scores = readout.scores(mean, distribution.graph, passes.nodes)
        rows = labelled.chosen(scores.shape[0], scores.device)
        trained = _matching(passes.trained(trained_on), scores)
        logits = Logits(readout.contrasts(trained[rows]), readout.contrasts(scores[rows]))
    state.step(Seen(balance, norm, logits))
    return plain


def _matching(trained: Tensor | None, scores: Tensor) -> Tensor:
    """The logits of the training step as a matrix, if they are of the same rows."""
    found = trained if trained is None or trained.dim() == 2 else trained[:, None]
    if found is None or found.shape != scores.shape:
        raise RuntimeError(
            "this rule compares with the logits of the last training call: call adapt() after one and with the "
            f"arguments of that call; expected logits {list(scores.shape)}, "
            f"got {'none' if found is None else list(found.shape)}"
        )
    return found
