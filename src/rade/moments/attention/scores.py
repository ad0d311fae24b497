"""The logarithms of attention weights on edges, loops and any pairs, and softmax over what a node receives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern, row_pointer
from rade.moments.base import without_derivatives

SHORT_LIST = 2**18  # pairs that are gone through at the speed of the cache


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
    """Whether to go through all pairs one by one."""
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


@dataclass(frozen=True, eq=False)
class Attributes:
    """What edge attributes add: on clean edges [E, H], on loops [n, H], on any other pair of a target [n, H]."""

    edges: Tensor | float = 0.0
    loops: Tensor | float = 0.0
    others: Tensor | float = 0.0


NOTHING = Attributes()


class Scores:
    """β_ij = log w_ij = LeakyReLU(s_j + t_i + e_ij) for scores s of sources, t of targets, [n, H], and e of attributes.

    In double precision. Weights themselves are only ever formed relative to the largest that their target receives, so
    scores may have any scale. ``edge`` [E, H] is β on clean edges, ``own`` [n, H] β_ii where there are self-loops, else
    −∞. Pairs that are no edges have an imputed e, which is part of ``t``.
    """

    def __init__(
        self, graph: Graph, s: Tensor, t: Tensor, slope: float, self_loops: bool, extra: Attributes = NOTHING
    ) -> None:
        if slope < 0:
            raise ValueError(f"slope of LeakyReLU must be >= 0, got {slope}; weights must not fall as scores grow")
        self.graph, self.slope, self.self_loops = graph, slope, self_loops
        self.uniform = extra is NOTHING  # whether edges have the scores that any pair of their nodes would have
        s, t, pattern = s.double(), t.double(), graph.pattern
        self.s, self.t = s, t + extra.others
        edge = s.index_select(0, pattern.source) + t.index_select(0, pattern.target) + extra.edges
        self.edge, self.loop = leaky_relu(edge, slope), leaky_relu(s + t + extra.loops, slope)
        self.own = self.loop if self_loops else torch.full_like(self.loop, -torch.inf)
        self.largest = self.heard(self.edge).detach()

    def detached(self) -> Scores:
        """The same without derivatives in features."""
        return without_derivatives(self)

    @property
    def heads(self) -> int:
        """H."""
        return self.loop.shape[1]

    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """β at the given pairs, as of non-edges, [P, H]."""
        return leaky_relu(self.s.index_select(0, source) + self.t.index_select(0, target), self.slope)

    def listed(self, pairs: ListedPairs) -> Tensor:
        """β at all pairs, edges among them, [P, H]."""
        return self.at(pairs.target, pairs.source).index_copy(0, pairs.edge, self.edge)

    def heaviest(self) -> Tensor:
        """About the largest β that any node of the graph could send to i, [n, H]; constant in derivatives."""
        s, graph = self.s.detach(), self.graph
        index = graph.batch[:, None].expand_as(s)
        largest = s.new_full((graph.num_graphs, s.shape[1]), -torch.inf).scatter_reduce(0, index, s, "amax")
        found = leaky_relu(largest[graph.batch] + self.t.detach(), self.slope)
        return found if self.uniform else torch.maximum(found, self.largest)

    def heard(self, edges: Tensor, added: Tensor | None = None, pattern: Pattern | None = None) -> Tensor:
        """The largest β that each node receives from itself, ``edges`` and ``added`` [·, H]; 0 for who receives nobody.

        It may be a constant in derivatives where weights relative to it are divided by their sum.
        """
        top = _row_max(self.own, self.graph.pattern.target, edges)
        if added is not None and pattern is not None:
            top = _row_max(top, pattern.target, added)
        return torch.where(top > -torch.inf, top, 0.0)


def _row_max(start: Tensor, target: Tensor, values: Tensor) -> Tensor:
    """max(start_i, values of row i), [n, H]."""
    return start.scatter_reduce(0, target[:, None].expand_as(values), values, "amax")
