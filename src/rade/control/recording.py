"""An adjacency that notes every aggregation of a pass: coefficients, messages, output, and what was summed over."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from torch import Tensor

from rade.correction import Aggregation, aggregation, shared_aggregation
from rade.graph.adjacency import Adjacency, LayerKey
from rade.graph.graph import Graph
from rade.graph.messages import Messages
from rade.moments.base import Coefficients


@dataclass(frozen=True, eq=False)
class Recorded:
    """One aggregation of a pass."""

    adjacency: Adjacency
    coefficients: Coefficients
    messages: Tensor | Messages  # [n, F] or [n, H, F]
    output: Tensor


@dataclass(frozen=True, eq=False)
class Recording(Adjacency):
    """Sums messages as ``inner`` does; ``calls`` holds what happened, in order."""

    inner: Adjacency
    calls: list[Recorded] = field(default_factory=list)

    @property
    def graph(self) -> Graph:
        """The clean graph under it."""
        return self.inner.graph

    def enter(self, layer: Hashable) -> None:
        self.inner.enter(layer)

    def for_layer(self, layer: LayerKey) -> Recording:
        """The layer's own view, recorded in the same list."""
        return Recording(self.inner.for_layer(layer), self.calls)


@dataclass(frozen=True, eq=False)
class _Noting:
    """The inner aggregation, noted whenever it is applied."""

    recording: Recording
    coefficients: Coefficients
    inner: Aggregation

    def apply(self, x: Tensor | Messages) -> Tensor:
        output = self.inner.apply(x)
        if not output.requires_grad:
            output.requires_grad_()  # a first layer on constant features: its output must have a gradient, too
        self.recording.calls.append(Recorded(self.recording.inner, self.coefficients, x, output))
        return output


@aggregation.register
def _(adjacency: Recording, coefficients: Coefficients) -> _Noting:
    return _Noting(adjacency, coefficients, shared_aggregation(adjacency.inner, coefficients))
