"""All views of a tiny graph at once, as one batch of copies: means and variances without sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from rade.correction import propagate
from rade.graph.graph import Graph
from rade.graph.pairs import symmetric_pattern
from rade.moments.base import Coefficients
from rade.view.view import Correction, Law, Rates, View

Repeat = Callable[[Tensor], Tensor]
Build = Callable[[Graph, Repeat], Coefficients]  # the same aggregator on a graph and on copies of it


def undirected(pairs: list[tuple[int, int]], nodes: int, batch: list[int] | None = None) -> Graph:
    edge = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    of = None if batch is None else torch.tensor(batch)
    return Graph.from_edge_index(torch.cat([edge, edge.flip(0)], 1), nodes, of)


PATH = undirected([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
STAR = undirected([(0, 1), (0, 2), (0, 3), (0, 4)], 5)
NEAR_CLIQUE = undirected([(a, b) for a in range(5) for b in range(a + 1, 5) if (a, b) != (1, 3)], 5)
TWO_COMPONENTS = undirected([(0, 1), (1, 2), (3, 4)], 5)
ISOLATED = undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 5)
CYCLE_CHORD = undirected([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)], 6)
BATCH = undirected([(0, 1), (1, 2), (3, 4), (4, 5), (5, 6)], 7, [0, 0, 0, 1, 1, 1, 1])
GRAPHS = {
    "path": PATH,
    "star": STAR,
    "near-clique": NEAR_CLIQUE,
    "two-components": TWO_COMPONENTS,
    "isolated": ISOLATED,
    "batch": BATCH,
}
LARGER = {"cycle-chord": CYCLE_CHORD}  # 6 nodes, 32,768 views: for the cheap aggregators
SQUARE_TAIL = undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 4)  # 64 views: small enough to enumerate pairs of views
RATES = [(0.3, 0.2), (0.5, 0.1), (0.9, 0.6), (0.0, 0.3), (0.4, 0.0), (0.0, 0.0), (0.25, 1.0)]  # (p, q)


def pairs_of(graph: Graph) -> tuple[Tensor, Tensor]:
    """All unordered pairs within a graph, lexicographic: [2, P], and which of them are edges, [P]."""
    low, high = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    same = graph.batch[low] == graph.batch[high]
    pairs = torch.stack([low[same], high[same]])
    return pairs, adjacency(graph)[pairs[0], pairs[1]]


def adjacency(graph: Graph) -> Tensor:
    """Dense A, [n, n] bool."""
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    dense[graph.pattern.target, graph.pattern.source] = True
    return dense


def nonedges(graph: Graph) -> Tensor:
    """Dense mask of ordered non-edges within the graphs, [n, n] bool."""
    same = graph.batch[:, None] == graph.batch
    return same & ~adjacency(graph) & ~torch.eye(graph.num_nodes, dtype=torch.bool)


def copies(graph: Graph, count: int) -> Graph:
    """``count`` copies of a graph as one batch; the entries of copy k follow those of copy k−1."""
    offset = torch.arange(count)[:, None]
    edge_index = (graph.edge_index[:, None] + offset * graph.num_nodes).reshape(2, -1)
    batch = (graph.batch + offset * graph.num_graphs).flatten()
    return Graph.from_edge_index(edge_index, graph.num_nodes * count, batch)


def identity(x: Tensor) -> Tensor:
    return x


def one_hot(graph: Graph, heads: int | None = None) -> Tensor:
    """Features on which an operator shows all its entries: [n, n] or, the same for every head, [n, H, n]."""
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    return eye if heads is None else eye[:, None].expand(-1, heads, -1)


class AllViews:
    """Every view of ``graph`` with its probability; copy k of the graph carries view k."""

    def __init__(self, graph: Graph, law: Law) -> None:
        pairs, is_edge = pairs_of(graph)
        count, n = 2 ** pairs.shape[1], graph.num_nodes
        bits = (torch.arange(count)[:, None] >> torch.arange(pairs.shape[1])) & 1
        rates = torch.tensor([float(law.rates.q), 1.0 - float(law.rates.p)], dtype=torch.double)
        present = rates[is_edge.long()]
        chance = torch.where(bits.bool(), present, 1.0 - present).prod(1)
        bits, self.weight = bits[chance > 0], chance[chance > 0]
        self.graph, self.law, self.count = graph, law, len(bits)
        self.copies = copies(graph, self.count)
        adjacency = torch.zeros(self.count, n, n, dtype=torch.bool)
        adjacency[:, pairs[0], pairs[1]] = bits.bool()
        adjacency = adjacency | adjacency.mT
        self.adjacency = adjacency
        copy = self.copies.pattern.target // n
        kept = adjacency[copy, self.copies.pattern.target % n, self.copies.pattern.source % n]
        added = adjacency[:, pairs[0][~is_edge], pairs[1][~is_edge]].nonzero()
        which = pairs[:, ~is_edge][:, added[:, 1]] + added[:, 0] * n
        self.view = View(self.copies, law, kept, symmetric_pattern(which[0], which[1], n * self.count))

    def under(self, correction: Correction) -> AllViews:
        """The same views, corrected in another way."""
        other = object.__new__(AllViews)
        other.__dict__.update(self.__dict__)
        other.law = replace(self.law, correction=correction)
        other.view = View(self.copies, other.law, self.view.kept, self.view.added)
        return other

    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat(self.count, *[1] * (x.dim() - 1))

    def aggregate(self, build: Build, x: Tensor) -> Tensor:
        """The aggregation of every view, [K, n, ...]; ``build(graph, repeat)`` makes the coefficients."""
        out = propagate(self.view, build(self.copies, self.repeat), self.repeat(x))
        return out.view(self.count, *x.shape)

    def coefficients(self, build: Build) -> tuple[Tensor, Tensor]:
        """α'_ij of every view, dense [K, n, n] or [K, n, n, H], and the loops', [K, n] or [K, n, H]."""
        weights, n = build(self.copies, self.repeat).on(self.view), self.graph.num_nodes
        dense = weights.edges.new_zeros(self.count, n, n, *weights.edges.shape[1:])
        for pattern, values in ((self.copies.pattern, weights.edges), (self.view.added, weights.added)):
            dense[pattern.target // n, pattern.target % n, pattern.source % n] += values
        return dense, weights.loop.view(self.count, n, *weights.loop.shape[1:])

    def mean(self, values: Tensor) -> Tensor:
        return torch.einsum("k,k...->...", self.weight.to(values.dtype), values)

    def variance(self, values: Tensor) -> Tensor:
        return self.mean((values - self.mean(values)).square())


@cache
def all_views(name: str, p: float, q: float) -> AllViews:
    """The views of a graph named above, kept for the next test."""
    return AllViews((GRAPHS | LARGER)[name], Law(Rates(p, q)))


def error(value: Tensor, target: Tensor, scale: Tensor | None = None) -> float:
    """Largest deviation, relative to the largest entry of the target (or of ``scale``)."""
    size = (target if scale is None else scale).detach().abs().max()
    return float((value - target).detach().abs().max() / size.clamp(min=1e-300))  # both may be all zero
