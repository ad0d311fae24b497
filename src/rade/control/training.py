"""A training step that has just been, and what rules may look at of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.control.evidence import Evidence, Logits
from rade.control.gradients import clean_gradient_norm, gradient_norm
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.regulariser import CleanPass, regulariser
from rade.control.rules import Rule
from rade.graph.nodes import nodes_of
from rade.view.law import Law


@dataclass(frozen=True, eq=False)
class Noisy:
    """Logits as they were in training, and on the mean over views; each with the nodes of its rows, None for all."""

    training: Tensor
    training_nodes: Tensor | None
    mean: Tensor
    mean_nodes: Tensor | None


@dataclass(frozen=True, eq=False)
class TrainingStep:
    """Views, rows and parameters of the step, and the passes of the model that the rule needs."""

    law: Law
    readout: Readout
    labelled: Labelled
    parameters: Sequence[Parameter]
    clean: CleanPass | None = None
    noisy: Noisy | None = None

    def evidence(self, rule: Rule) -> Evidence:
        """What the rule says that it reads."""
        clean, noisy = self.clean, self.noisy
        return Evidence(
            None
            if clean is None or "regulariser" not in rule.reads
            else regulariser(clean, self.readout, self.labelled, self.law, self.parameters),
            self._data_norm(rule) if "data_norm" in rule.reads else None,
            None if noisy is None or "logits" not in rule.reads else self._logits(noisy),
        )

    def _data_norm(self, rule: Rule) -> Tensor:
        if self.clean is None or rule.data_gradient == "training":
            return gradient_norm(self.parameters)
        return clean_gradient_norm(self.clean.logits, self.labelled, self.parameters)

    def _logits(self, noisy: Noisy) -> Logits:
        """The labelled rows with and without noise."""
        graph, nodes = self.law.graph, noisy.mean_nodes
        scores = self.readout.scores(noisy.mean, graph, nodes)
        rows = self.labelled.chosen(scores.shape[0], scores.device)
        wanted = rows if nodes is None else nodes[rows]
        if noisy.training_nodes is not None:
            wanted = nodes_of(noisy.training_nodes, graph.num_nodes).position[wanted]
        training = noisy.training if noisy.training.dim() == 2 else noisy.training[:, None]
        contrasts = self.readout.contrasts
        return Logits(contrasts(torch.index_select(training, 0, wanted)), contrasts(scores[rows]))
