"""The logarithms of attention weights on edges, loops and any pairs, and softmax over what a node receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch.utils.checkpoint import checkpoint

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern, row_pointer
from rade.moments.base import without_derivatives

SHORT_LIST = 2**18  # pairs that are gone through at the speed of the cache
CHUNK = 2**20  # numbers per temporary of scores that are functions of pairs of features


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """All ordered pairs (i, j ≠ i) of a batch by target, [P]; where the edges stand among them, and the others."""

    target: Tensor
    source: Tensor
    rowptr: Tensor  # [n + 1]
    edge: Tensor  # [E] position of each clean edge
    other: Tensor  # [P − E] positions of the non-edges
    pattern: Pattern  # of the non-edges


def ordered_pairs(graph: Graph) -> int:
    """The number of ordered pairs."""
    return int((graph.sizes * (graph.sizes - 1)).sum())


def few_pairs(graph: Graph, heads: int) -> bool:
    """Whether all pairs of a graph may be listed: only so do scores of pairs of features have moments."""
    return ordered_pairs(graph) * heads <= SHORT_LIST


def list_pairs(graph: Graph) -> ListedPairs:
    """All pairs of every graph, in O(Σ n_g²); found once."""
    known: ListedPairs | None = graph.cache.get("all pairs")
    if known is not None:
        return known
    target = torch.repeat_interleave(graph.size - 1)
    rowptr = row_pointer(target, graph.num_nodes)
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    by_graph = nodes if graph.by_graph is None else graph.by_graph
    own = torch.empty_like(nodes).index_copy_(0, by_graph, nodes)  # place of each node, graph by graph
    place = graph.ptr[graph.batch[target]] + torch.arange(target.numel(), device=graph.device) - rowptr[target]
    source = by_graph[place + (place >= own[target])]  # nobody is its own source
    edges, n = graph.pattern, graph.num_nodes
    edge = torch.searchsorted(target * n + source, edges.target * n + edges.source)
    other = torch.ones_like(target, dtype=torch.bool).index_fill(0, edge, False).nonzero().squeeze(1)
    pattern = Pattern.general(row_pointer(target[other], n), source[other], n)
    found = graph.cache["all pairs"] = ListedPairs(target, source, rowptr, edge, other, pattern)
    return found


class PairScores(ABC):
    """β_ij = log w_ij, a function of pairs; in double precision.

    Weights themselves are only ever formed relative to the largest that their target receives, so scores may have any
    scale. ``edge`` [E, H] is β on clean edges, ``own`` [n, H] β_ii where there are self-loops, else −∞.
    """

    uniform = False  # whether edges have the scores that any pair of their nodes would have

    def __init__(self, graph: Graph, edge: Tensor, loop: Tensor, self_loops: bool) -> None:
        self.graph, self.self_loops = graph, self_loops
        self.edge, self.loop = edge.double(), loop.double()
        self.own = self.loop if self_loops else torch.full_like(self.loop, -torch.inf)
        self.largest = self.heard(self.edge).detach()

    def detached(self) -> PairScores:
        """The same without derivatives in features."""
        return without_derivatives(self)

    @property
    def heads(self) -> int:
        """H."""
        return self.loop.shape[1]

    @abstractmethod
    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """β at the given pairs that are no edges, [P, H]."""

    def listed(self, pairs: ListedPairs) -> Tensor:
        """β at all pairs, edges among them, [P, H]."""
        return self.at(pairs.target, pairs.source).index_copy(0, pairs.edge, self.edge)

    def heaviest(self) -> Tensor:
        """About the largest β that any node of the graph could send to i, [n, H]; constant in derivatives."""
        return self.largest

    def heard(self, edges: Tensor, added: Tensor | None = None, pattern: Pattern | None = None) -> Tensor:
        """The largest β that each node receives from itself, ``edges`` and ``added`` [·, H]; 0 for who receives nobody.

        It may be a constant in derivatives where weights relative to it are divided by their sum.
        """
        top = _row_max(self.own, self.graph.pattern.target, edges)
        if added is not None and pattern is not None:
            top = _row_max(top, pattern.target, added)
        return torch.where(top > -torch.inf, top, 0.0)


class Scores(PairScores):
    """β_ij = LeakyReLU(s_j + t_i) for scores s of sources and t of targets, [n, H]."""

    uniform = True

    def __init__(self, graph: Graph, s: Tensor, t: Tensor, slope: float, self_loops: bool) -> None:
        if slope < 0:
            raise ValueError(f"slope of LeakyReLU must be >= 0, got {slope}; weights must not fall as scores grow")
        self.slope, self.s, self.t = slope, s.double(), t.double()
        edge = self.at(graph.pattern.target, graph.pattern.source)
        super().__init__(graph, edge, leaky_relu(self.s + self.t, slope), self_loops)

    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """β at the given pairs, [P, H]."""
        return leaky_relu(self.s.index_select(0, source) + self.t.index_select(0, target), self.slope)

    def heaviest(self) -> Tensor:
        """From the largest s of the graph."""
        s, graph = self.s.detach(), self.graph
        index = graph.batch[:, None].expand_as(s)
        largest = s.new_full((graph.num_graphs, s.shape[1]), -torch.inf).scatter_reduce(0, index, s, "amax")
        return leaky_relu(largest[graph.batch] + self.t.detach(), self.slope)


@dataclass(frozen=True, eq=False)
class Attributes:
    """What edge attributes add: on clean edges [E, ...], on loops [n, ...], on any other pair of a node [n, ...]."""

    edges: Tensor | float = 0.0
    loops: Tensor | float = 0.0
    others: Tensor | float = 0.0


class EdgeScores(Scores):
    """β_ij = LeakyReLU(s_j + t_i + e_ij), where any pair but an edge has an imputed e; `Attributes` [·, H]."""

    uniform = False

    def __init__(self, graph: Graph, s: Tensor, t: Tensor, slope: float, self_loops: bool, extra: Attributes) -> None:
        super().__init__(graph, s, t + extra.others, slope, self_loops)
        s, t, pattern = s.double(), t.double(), graph.pattern
        edge = s.index_select(0, pattern.source) + t.index_select(0, pattern.target) + extra.edges
        loop = leaky_relu(s + t + extra.loops, slope)
        PairScores.__init__(self, graph, leaky_relu(edge, slope), loop, self_loops)

    def heaviest(self) -> Tensor:
        """From the largest s, or an edge of its own."""
        return torch.maximum(super().heaviest(), self.largest)


class FeatureScores(PairScores):
    """β_ij = score(query_i, key_j + e_ij) per head, for features [n, H, C] and a function of rows [P, H, C].

    Sums over all nodes have no closed form: there are moments only where the list of all pairs is short.
    """

    def __init__(
        self,
        graph: Graph,
        query: Tensor,
        key: Tensor,
        score: Callable[[Tensor, Tensor], Tensor],
        self_loops: bool,
        extra: Attributes,
    ) -> None:
        self.query, self.key, self.score = query.double(), key.double() + extra.others, score
        pattern, key = graph.pattern, key.double()
        edge = score(self.query.index_select(0, pattern.target), key.index_select(0, pattern.source) + extra.edges)
        super().__init__(graph, edge, score(self.query, key + extra.loops), self_loops)

    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """β at the given pairs, [P, H]; long lists in pieces that are computed again in the backward pass."""
        size = max(1, CHUNK // max(1, self.query[:1].numel()))
        pieces = list(zip(torch.split(target, size), torch.split(source, size)))
        if len(pieces) == 1:
            return self._at(target, source)
        found: list[Tensor] = [checkpoint(self._at, *piece, use_reentrant=False) for piece in pieces]
        return torch.cat(found)

    def _at(self, target: Tensor, source: Tensor) -> Tensor:
        return self.score(self.query.index_select(0, target), self.key.index_select(0, source))


def _row_max(start: Tensor, target: Tensor, values: Tensor) -> Tensor:
    """max(start_i, values of row i), [n, H]."""
    return start.scatter_reduce(0, target[:, None].expand_as(values), values, "amax")
