"""An adjacency of which a layer is asked for some rows only."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from rade.graph.adjacency import Adjacency, LayerKey
from rade.graph.graph import Graph
from rade.graph.nodes import Nodes
from rade.graph.operator import at
from rade.memory import Memo

T = TypeVar("T")
KEPT = 16  # training, validation and test rows of a few aggregators


@dataclass(frozen=True, eq=False)
class Restricted(Adjacency):
    """What ``nodes`` hear over another adjacency, from the features of the nodes ``given``, all if None."""

    whole: Adjacency
    nodes: Nodes
    given: Nodes | None = None

    @property
    def graph(self) -> Graph:
        """The whole clean graph: coefficients know the degrees of everybody."""
        return self.whole.graph

    @property
    def rows(self) -> int:
        """Those that are asked for."""
        return self.nodes.count

    @property
    def fed(self) -> int:
        return self.graph.num_nodes if self.given is None else self.given.count

    @property
    def linear(self) -> bool:
        return self.whole.linear

    def own(self, x: Tensor) -> Tensor:
        """The features of the nodes that are asked for."""
        return x.index_select(0, at(self.nodes, self.given))

    def enter(self, layer: Hashable) -> None:
        self.whole.enter(layer)

    def for_layer(self, layer: LayerKey) -> Restricted:
        """The same rows of that layer's view."""
        return Restricted(self.whole.for_layer(layer), self.nodes, self.given)

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, kept with the whole; rows that change from call to call do not pile up there."""
        kept: Memo = self.whole.once("restricted", lambda: Memo(KEPT))
        return kept.once((self.nodes, self.given, key), build)
