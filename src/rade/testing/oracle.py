"""All views of a tiny graph at once, as one batch of copies: means and variances without sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from rade.correction import propagate
from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.view.law import Law, Variant
from rade.view.rates import Rates, number
from rade.view.view import View


@dataclass(frozen=True)
class Carry:
    """How an aggregator's values of a base graph come to a graph made of it: copies, parts, other numberings."""

    nodes: Callable[[Tensor], Tensor]  # [n, ...] of the base graph
    edges: Callable[[Tensor], Tensor]  # [E, ...] in the order of its pattern


Build = Callable[[Graph, Carry, torch.dtype], Coefficients]  # one aggregator on a base graph and on what is made of it


def _unchanged(x: Tensor) -> Tensor:
    return x


UNCHANGED = Carry(_unchanged, _unchanged)


def undirected(pairs: list[tuple[int, int]], nodes: int, batch: list[int] | None = None) -> Graph:
    """The graph of a list of unordered pairs.

    >>> undirected([(0, 1), (1, 2)], 3).degree.tolist()
    [1, 2, 1]
    """
    edge = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    of = None if batch is None else torch.tensor(batch)
    return Graph.from_edge_index(torch.cat([edge, edge.flip(0)], 1), nodes, of)


def directed(edges: list[tuple[int, int]], nodes: int, batch: list[int] | None = None) -> Graph:
    """The directed graph of a list of edges (source, target).

    >>> directed([(0, 1), (2, 1)], 3).degree.tolist()
    [0, 2, 0]
    """
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph.from_edge_index(edge_index, nodes, None if batch is None else torch.tensor(batch), directed=True)


GRAPHS = {
    "path": undirected([(0, 1), (1, 2), (2, 3), (3, 4)], 5),
    "star": undirected([(0, 1), (0, 2), (0, 3), (0, 4)], 5),
    "near-clique": undirected([(a, b) for a in range(5) for b in range(a + 1, 5) if (a, b) != (1, 3)], 5),
    "two-components": undirected([(0, 1), (1, 2), (3, 4)], 5),
    "isolated": undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 5),
    "batch": undirected([(0, 1), (1, 2), (3, 4), (4, 5), (5, 6)], 7, [0, 0, 0, 1, 1, 1, 1]),
    "cycle-chord": undirected([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)], 6),
    "directed": directed([(0, 1), (1, 0), (1, 2), (2, 3), (0, 3)], 4),
    "directed-sources": directed([(0, 2), (1, 2), (3, 2), (2, 3)], 4),
    "directed-batch": directed([(0, 1), (2, 1), (3, 4), (4, 3), (3, 5)], 6, [0, 0, 0, 1, 1, 1]),
}
RATES = [(0.3, 0.2), (0.5, 0.1), (0.9, 0.6), (0.0, 0.3), (0.4, 0.0), (0.0, 0.0), (0.25, 1.0)]  # (p, q)


def adjacency(graph: Graph) -> Tensor:
    """Dense A, [n, n] bool."""
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    dense[graph.pattern.target, graph.pattern.source] = True
    return dense


def nonedges(graph: Graph) -> Tensor:
    """Dense mask of ordered non-edges within the graphs, [n, n] bool."""
    same = graph.batch[:, None] == graph.batch
    return same & ~adjacency(graph) & ~torch.eye(graph.num_nodes, dtype=torch.bool)


def pairs_of(graph: Graph) -> tuple[Tensor, Tensor]:
    """All pairs (target, source) within a graph that are drawn, lexicographic, [2, P], and which are edges, [P].

    Of an undirected graph those with target < source.
    """
    nodes = torch.arange(graph.num_nodes)
    target, source = torch.cartesian_prod(nodes, nodes).unbind(1)
    drawn = (target < source) if graph.directions.together else (target != source)
    drawn &= graph.batch[target] == graph.batch[source]
    pairs = torch.stack([target[drawn], source[drawn]])
    return pairs, adjacency(graph)[pairs[0], pairs[1]]


def copies(graph: Graph, count: int) -> Graph:
    """``count`` copies of a graph as one batch; the entries of copy k follow those of copy k−1."""
    offset = torch.arange(count)[:, None]
    edge_index = (graph.edge_index[:, None] + offset * graph.num_nodes).reshape(2, -1)
    batch = (graph.batch + offset * graph.num_graphs).flatten()
    return Graph.from_edge_index(edge_index, graph.num_nodes * count, batch, directed=graph.directed)


class AllViews:
    """Every view of a law's graph with its probability; copy k of the graph carries view k.

    >>> law = Law(undirected([(0, 1)], 3), Rates(p=0.5, q=0.1))
    >>> views = AllViews(law)
    >>> views.count, float(views.weight.sum())
    (8, 1.0)
    """

    def __init__(self, law: Law) -> None:
        if law.views.sampling != "bernoulli":
            raise ValueError(f"only independent additions can be enumerated, got sampling={law.views.sampling!r}")
        graph = law.graph
        (pairs, is_edge), n = pairs_of(graph), graph.num_nodes
        bits = (torch.arange(2 ** pairs.shape[1])[:, None] >> torch.arange(pairs.shape[1])) & 1
        rates = torch.tensor([number(law.rates.q), 1.0 - number(law.rates.p)], dtype=torch.double)
        present = rates[is_edge.long()]
        chance = torch.where(bits.bool(), present, 1.0 - present).prod(1)
        bits, self.weight = bits[chance > 0], chance[chance > 0]
        self.graph, self.law, self.count = graph, law, len(bits)
        self.copies = copies(graph, self.count)
        self.carry = Carry(self.repeat, self.repeat)
        dense = torch.zeros(self.count, n, n, dtype=torch.bool)
        dense[:, pairs[0], pairs[1]] = bits.bool()
        dense = dense | dense.mT if graph.directions.together else dense
        pattern = self.copies.pattern
        kept = dense[pattern.target // n, pattern.target % n, pattern.source % n]
        added = dense[:, pairs[0][~is_edge], pairs[1][~is_edge]].nonzero()
        target, source = pairs[:, ~is_edge][:, added[:, 1]] + added[:, 0] * n
        self.view = View(law.on(self.copies), kept, graph.directions.pattern(target, source, n * self.count))

    def under(self, variant: Variant) -> AllViews:
        """The same views, corrected in another way; nothing that was computed travels along."""
        other = object.__new__(AllViews)
        other.__dict__.update(self.__dict__)
        other.law = replace(self.law, variant=variant)
        other.view = View(other.law.on(self.copies), self.view.kept, self.view.added)
        return other

    def repeat(self, x: Tensor) -> Tensor:
        """One copy of values of nodes or edges for each view."""
        return x.repeat(self.count, *[1] * (x.dim() - 1))

    def aggregate(self, build: Build, x: Tensor) -> Tensor:
        """The aggregation of every view, [K, n, ...]."""
        out = propagate(self.view, build(self.copies, self.carry, x.dtype), self.repeat(x))
        return out.view(self.count, *x.shape)

    def coefficients(self, build: Build) -> tuple[Tensor, Tensor]:
        """α'_ij of every view, dense [K, n, n] or [K, n, n, H], and the loops', [K, n] or [K, n, H]."""
        weights, n = build(self.copies, self.carry, torch.double).on(self.view), self.graph.num_nodes
        dense = weights.edges.new_zeros(self.count, n, n, *weights.edges.shape[1:])
        for pattern, values in ((self.copies.pattern, weights.edges), (self.view.added, weights.added)):
            dense[pattern.target // n, pattern.target % n, pattern.source % n] += values
        return dense, weights.loop.view(self.count, n, *weights.loop.shape[1:])

    def mean(self, values: Tensor) -> Tensor:
        """Σ_views probability · values, [K, ...] → [...]."""
        return torch.einsum("k,k...->...", self.weight.to(values.dtype), values)

    def variance(self, values: Tensor) -> Tensor:
        """The mean of squared deviations from the mean, [K, ...] → [...]."""
        return self.mean((values - self.mean(values)).square())


@lru_cache(16)
def all_views(name: str, p: float, q: float) -> AllViews:
    """The views of one of ``GRAPHS``, kept for the next check."""
    return AllViews(Law(GRAPHS[name], Rates(p, q)))


def one_hot(graph: Graph, heads: int | None = None) -> Tensor:
    """Features on which an operator shows all its entries: [n, n] or, the same for every head, [n, H, n]."""
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    return eye if heads is None else eye[:, None].expand(-1, heads, -1)


def error(found: Tensor, target: Tensor, scale: Tensor | None = None) -> float:
    """Largest deviation, relative to the largest entry of the target (or of ``scale``)."""
    size = (target if scale is None else scale).detach().abs().max()
    return float((found - target).detach().abs().max() / size.clamp(min=1e-300))  # both may be all zero
