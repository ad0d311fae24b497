"""A call of a model that is made again, in evaluation mode: on the input graph, on the mean over views, on views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module

from rade.distribution import Rates
from rade.graph.graph import Graph
from rade.nn.context import Context, Pass
from rade.nn.trace import Trace, evaluating, following, head_matrix, logits_of
from rade.rates.readout import Labelled, Readout
from rade.rates.regulariser import CleanPass
from rade.rates.variance import LogitMessages
from rade.wrapper.inference import sampled

if TYPE_CHECKING:
    from rade.wrapper.module import LastCall


@dataclass(eq=False)
class Repeated:
    """A call of a model; who makes it again does so inside of a pass of the context."""

    context: Context
    model: Module
    run: partial[object]
    readout: Readout

    def graph(self) -> Graph:
        """That of its last convolution with moments."""
        trace = Trace()
        with torch.no_grad(), evaluating(self.model), self.context.using(trace, mode="clean"):
            self.run()
        return trace.graph

    def on_views(self, rates: Rates | None = None, **changes: Any) -> Tensor:
        """The logits on fresh views."""
        return logits_of(sampled(self.context, self.run, rates, **changes))

    def clean(self, labelled: Labelled = Labelled()) -> CleanPass:  # noqa: B008 - a frozen value
        """One pass over the input graph: the logits with gradients, and what the last layer sends.

        Where the curvature of the loss is constant, Var(δ) is all that the regulariser depends on: messages then have
        gradients, too. Labelled rows that are computed apart leave all others without.
        """
        trace, readout, model = Trace(), self.readout, self.model
        apart = None if readout.is_flat else labelled.apart
        with evaluating(model):
            with (
                torch.set_grad_enabled(apart is None),
                self.context.using(trace, mode="clean"),
                following(model, trace),
            ):
                logits = logits_of(self.run())
            if apart is not None:
                with torch.enable_grad(), self.context.using(mode="clean"):
                    logits = logits.index_copy(0, labelled.chosen(len(logits), logits.device), apart())
        with torch.set_grad_enabled(readout.is_flat):
            classes = logits.shape[1] if logits.dim() == 2 else 1
            head = model.get_submodule(readout.head) if isinstance(readout.head, str) else readout.head
            last = trace.last if readout.is_flat else trace.last.detached()
            messages = LogitMessages(last.coefficients, last.pushed(head_matrix(model, trace, classes, head)))
        return CleanPass(logits, last.adjacency.graph, messages, last.adjacency.targets)


@dataclass(eq=False)
class RateCall(Repeated):
    """The call that a rate step is made for: the last training call, or one like it.

    Attributes:
        present: the pass that it is made in, clean unless a method says otherwise.
        last: the last training call, if there was one.
        nodes: of the rows of the logits, where not every node has one; known after a pass.
    """

    present: Pass
    last: LastCall | None
    nodes: Tensor | None = None

    def graph(self) -> Graph:
        """That of the last training call, if it is repeated, or one that was given as such, or that of a pass."""
        last = self.last
        if last is not None and last.present.graph is not None and _same(last.run, self.run):
            return last.present.graph
        return next((value for value in _arguments(self.run) if isinstance(value, Graph)), None) or super().graph()

    def clean(self, labelled: Labelled = Labelled()) -> CleanPass:  # noqa: B008 - a frozen value
        found = super().clean(labelled)
        self.nodes = found.nodes
        return found

    def prediction(self) -> Tensor:
        """The logits, without gradients."""
        with torch.no_grad(), evaluating(self.model):
            logits = logits_of(self.run())
        self.nodes = self.present.targets
        return logits

    def mean(self) -> Tensor:
        """The same on the mean over views."""
        with self.context.using(mode="mean"):
            return self.prediction()

    def trained(self, graph: Graph) -> Tensor | None:
        """The logits of the last training call; where that asked for other rows, in the order of these."""
        last = self.last
        if last is None or last.present.graph is not graph:
            return None
        if last.logits is None or self.nodes is None or last.present.targets is None:
            return last.logits
        place = torch.full((graph.num_nodes,), -1, device=self.nodes.device)
        place[last.present.targets] = torch.arange(len(last.present.targets), device=self.nodes.device)
        at = place[self.nodes]
        logits = last.logits if last.logits.dim() == 2 else last.logits[:, None]
        return torch.where((at >= 0)[:, None], logits[at.clamp(min=0)], torch.nan)


def _same(one: partial[object], other: partial[object]) -> bool:
    """Whether two calls are of the same function with the same objects."""
    if one is other:
        return True
    before, now = _arguments(one), _arguments(other)
    return one.func is other.func and len(before) == len(now) and all(a is b for a, b in zip(before, now))


def _arguments(run: partial[object]) -> tuple[object, ...]:
    return (*run.args, *run.keywords.values())
