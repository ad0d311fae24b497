"""What a view draws at once: both directions of a pair of nodes, or each direction by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from rade.graph.pairs import (
    pair_count,
    rank_ordered,
    rank_pairs,
    symmetric_pattern,
    unrank_ordered,
    unrank_pairs,
)
from rade.graph.sparse import Pattern, row_pointer


class Directions(ABC):
    """The pairs of nodes that are kept, dropped and added, each by one draw; everybody else asks the graph for them."""

    together: ClassVar[bool]  # whether a draw decides on both directions, so that they covary in full
    ends: ClassVar[int]  # in how many degrees a present pair counts: its target's, or its source's as well

    @abstractmethod
    def structure(self, source: Tensor, target: Tensor, nodes: int) -> Pattern:
        """The pattern of a simple edge list, sorted by target and source; refuses one that does not fit."""

    @abstractmethod
    def count(self, size: Tensor) -> Tensor:
        """How many pairs n nodes have."""

    @abstractmethod
    def rank(self, target: Tensor, source: Tensor, size: Tensor) -> Tensor:
        """Position of pairs in the list of all pairs of ``size`` nodes, sorted by target and source."""

    @abstractmethod
    def unrank(self, rank: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs (target, source) at some positions."""

    @abstractmethod
    def pattern(self, target: Tensor, source: Tensor, nodes: int) -> Pattern:
        """The pattern of some pairs, sorted by target and source."""

    @abstractmethod
    def entries(self, pattern: Pattern) -> Tensor:
        """One entry of a pattern for each of its pairs, in the order of their ranks."""

    @abstractmethod
    def reversed(self, values: Tensor, pattern: Pattern) -> Tensor:
        """For every entry the value of the other direction of its pair, [E, ...]; 0 where that is another pair."""

    @abstractmethod
    def spread(self, drawn: Tensor, entries: Tensor, pattern: Pattern) -> Tensor:
        """What was drawn for the pairs of ``entries``, told to all entries."""


class Together(Directions):
    """Undirected: an unordered pair is drawn once, for both its directions."""

    together = True
    ends = 2

    def structure(self, source: Tensor, target: Tensor, nodes: int) -> Pattern:
        """Symmetric, hence its own transpose."""
        reverse = torch.argsort(source, stable=True)
        if not (torch.equal(source[reverse], target) and torch.equal(target[reverse], source)):
            raise ValueError(
                "edge_index must hold both directions of every edge, but some edges have no reverse. If the graph is "
                "undirected, add them with torch_geometric.utils.to_undirected; if a NeighborLoader sampled it, with "
                "its subgraph_type='bidirectional'; if it is directed, say so: RADE(model, "
                "views=rade.Views(directed=True)) or Graph.from_edge_index(..., directed=True)"
            )
        return Pattern(row_pointer(target, nodes), source, nodes, reverse)

    def count(self, size: Tensor) -> Tensor:
        """n(n−1)/2."""
        return pair_count(size)

    def rank(self, target: Tensor, source: Tensor, size: Tensor) -> Tensor:
        """Of pairs with target < source."""
        return rank_pairs(target, source, size)

    def unrank(self, rank: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """With target < source."""
        return unrank_pairs(rank, size)

    def pattern(self, target: Tensor, source: Tensor, nodes: int) -> Pattern:
        """Both directions of pairs with target < source."""
        return symmetric_pattern(target, source, nodes)

    def entries(self, pattern: Pattern) -> Tensor:
        """Those with target < source."""
        return (pattern.target < pattern.source).nonzero().squeeze(1)

    def reversed(self, values: Tensor, pattern: Pattern) -> Tensor:
        """Of the opposite entries."""
        return values[pattern.transposition]

    def spread(self, drawn: Tensor, entries: Tensor, pattern: Pattern) -> Tensor:
        """To both directions."""
        told = drawn.new_empty(pattern.size)
        told[entries] = drawn
        told[pattern.transposition[entries]] = drawn
        return told


class Apart(Directions):
    """Directed: j → i and i → j are two pairs, drawn independently."""

    together = False
    ends = 1

    def structure(self, source: Tensor, target: Tensor, nodes: int) -> Pattern:
        """Any, with its transpose."""
        return Pattern.general(row_pointer(target, nodes), source, nodes)

    def count(self, size: Tensor) -> Tensor:
        """n(n−1)."""
        return 2 * pair_count(size)

    def rank(self, target: Tensor, source: Tensor, size: Tensor) -> Tensor:
        """Of ordered pairs."""
        return rank_ordered(target, source, size)

    def unrank(self, rank: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """In any order."""
        return unrank_ordered(rank, size)

    def pattern(self, target: Tensor, source: Tensor, nodes: int) -> Pattern:
        """One direction each."""
        return self.structure(source, target, nodes)

    def entries(self, pattern: Pattern) -> Tensor:
        """All of them."""
        return torch.arange(pattern.size, device=pattern.source.device)

    def reversed(self, values: Tensor, pattern: Pattern) -> Tensor:
        """Nothing: the other direction is another pair."""
        return torch.zeros_like(values)

    def spread(self, drawn: Tensor, entries: Tensor, pattern: Pattern) -> Tensor:
        """Every entry has its own."""
        return drawn


UNDIRECTED, DIRECTED = Together(), Apart()
