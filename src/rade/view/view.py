"""Adjacencies made of a law: one random view, and the mean over all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph, heard
from rade.graph.nodes import Nodes
from rade.graph.sparse import Pattern
from rade.memory import Memo
from rade.view.law import Law
from rade.view.rates import Rates

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Lawful(Adjacency):
    """What all adjacencies of a law have from it."""

    law: Law

    @property
    def graph(self) -> Graph:
        """The clean graph under the views."""
        return self.law.graph

    @property
    def linear(self) -> bool:
        return True

    @property
    def local(self) -> bool:
        """As the law says."""
        return self.law.local


@dataclass(frozen=True, eq=False)
class View(Lawful):
    """One random view A': which edges were kept and which non-edges added."""

    kept: Tensor  # [E] bool, equal for both directions of an undirected edge
    added: Pattern  # both directions of undirected additions
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    def neighborhood(self, nodes: Nodes) -> Nodes:
        """The nodes, their neighbors on the clean graph (dropped ones too: they are found once), and added ones."""
        known = self.graph.neighborhood(nodes)
        return known if self.added.size == 0 else known.union(heard(nodes, self.added))

    @property
    def rates(self) -> Rates:
        """The rates it was drawn with."""
        return self.law.rates

    @property
    def edge_index(self) -> Tensor:
        """[2, E'] of the view, kept edges first: for other libraries; the convolutions take the view itself."""
        return torch.cat(
            [self.graph.edge_index[:, self.kept], torch.stack([self.added.source, self.added.target])], dim=1
        )

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use: layers that aggregate alike share their operator."""
        return self.memo.once(key, build)


@dataclass(frozen=True, eq=False)
class MeanView(Lawful):
    """The mean over all views, for inference: RADE-OF is the clean graph, RADE-OFS keeps the expected additions."""

    @property
    def local(self) -> bool:
        """RADE-OFS hears everybody a little, and so does who undoes noise."""
        return not self.law.variant.keeps_additions and self.law.noise == Rates(0.0, 0.0)

    def neighborhood(self, nodes: Nodes) -> Nodes:
        """That of the clean graph."""
        return self.graph.neighborhood(nodes)

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed once for the law: every pass at the same rates shares it."""
        return self.law.memo.once(("mean view", key), build)
