"""All views of a tiny graph at once, as one batch of copies: means and variances without sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from rade.correction import Adjacency
from rade.distribution import Correction, Distribution, Rates, Variant
from rade.graph.graph import Graph
from rade.graph.sparse import Pattern
from rade.moments.base import Coefficients, Moments
from rade.sums import Messages
from rade.views import View

Carry = Callable[[Tensor], Tensor]  # how values of nodes or edges of a base graph come to a batch of its copies
Build = Callable[[Graph, Carry, torch.dtype], Coefficients]  # one aggregator on a base graph and on such a batch
FINELY = Correction(tolerance=1e-5)  # of attention's moments: checks look closer than training needs


def undirected(pairs: list[tuple[int, int]], nodes: int, batch: list[int] | None = None) -> Graph:
    """The graph of a list of unordered pairs.

    >>> undirected([(0, 1), (1, 2)], 3).degree.tolist()
    [1, 2, 1]
    """
    return directed([*pairs, *((b, a) for a, b in pairs)], nodes, batch, directed=False)


def directed(edges: list[tuple[int, int]], nodes: int, batch: list[int] | None = None, directed: bool = True) -> Graph:
    """The directed graph of a list of edges (source, target).

    >>> directed([(0, 1), (2, 1)], 3).degree.tolist()
    [0, 2, 0]
    """
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph.from_edge_index(edge_index, nodes, None if batch is None else torch.tensor(batch), directed=directed)


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


def adjacency(graph: Graph) -> Tensor:
    """Dense A, [n, n] bool."""
    return on_edges(graph, torch.ones(graph.pattern.size, dtype=torch.bool))


def nonedges(graph: Graph) -> Tensor:
    """Dense mask of ordered non-edges within the graphs, [n, n] bool."""
    same = graph.batch[:, None] == graph.batch
    return same & ~adjacency(graph) & ~torch.eye(graph.num_nodes, dtype=torch.bool)


def on_edges(graph: Graph, values: Tensor) -> Tensor:
    """Values on edges as a matrix, [E, ...] → [n, n, ...]."""
    out = values.new_zeros(graph.num_nodes, graph.num_nodes, *values.shape[1:])
    out[graph.pattern.target, graph.pattern.source] = values
    return out


def on_pairs(graph: Graph, moments: Moments, heads: int | None) -> Tensor:
    """A moment of every pair as a matrix, [n, n] or [n, n, H]."""
    rest = moments.nonedges.apply(one_hot(graph, heads))
    return on_edges(graph, moments.edges) + (rest if heads is None else rest.transpose(1, 2))


def one_hot(graph: Graph, heads: int | None = None) -> Tensor:
    """Features on which sums show all their weights: [n, n] or, the same for every head, [n, H, n]."""
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    return eye if heads is None else eye[:, None].expand(-1, heads, -1)


def pairs_of(graph: Graph) -> tuple[Tensor, Tensor]:
    """All pairs (target, source) within a graph that are drawn, lexicographic, [2, P], and which are edges, [P].

    Of an undirected graph those with target < source.
    """
    nodes = torch.arange(graph.num_nodes)
    target, source = torch.cartesian_prod(nodes, nodes).unbind(1)
    drawn = (target != source) if graph.directed else (target < source)
    drawn &= graph.batch[target] == graph.batch[source]
    pairs = torch.stack([target[drawn], source[drawn]])
    return pairs, adjacency(graph)[pairs[0], pairs[1]]


def copies(graph: Graph, count: int) -> Graph:
    """``count`` copies of a graph as one batch; the entries of copy k follow those of copy k−1."""
    offset = torch.arange(count)[:, None]
    edge_index = (graph.given[:, None] + offset * graph.num_nodes).reshape(2, -1)
    batch = (graph.batch + offset * graph.num_graphs).flatten()
    return Graph.from_edge_index(edge_index, graph.num_nodes * count, batch, directed=graph.directed)


def view_of(distribution: Distribution, dense: Tensor) -> View:
    """The view of K copies of a graph that holds the pairs (target, source) of ``dense`` [K, n, n]."""
    graph, n = distribution.graph, dense.shape[1]
    edges = graph.pattern.target // n, graph.pattern.target % n, graph.pattern.source % n
    others = dense.index_put(edges, torch.tensor(False))
    copy, target, source = (others if graph.directed else others.triu()).nonzero().t()
    added = Pattern.of_pairs(target + copy * n, source + copy * n, graph.num_nodes, graph.directed)
    return View(distribution, dense[edges], added)


class AllViews:
    """Every view of a distribution's graph with its probability; copy k of the graph carries view k.

    >>> views = AllViews(Distribution(undirected([(0, 1)], 3), Rates(p=0.5, q=0.1)))
    >>> views.count, float(views.weight.sum())
    (8, 1.0)
    """

    def __init__(self, distribution: Distribution) -> None:
        if distribution.views.sampling != "bernoulli":
            raise ValueError(
                f"only independent additions can be enumerated, got sampling={distribution.views.sampling!r}"
            )
        graph, (p, q) = distribution.graph, distribution.rates.numbers
        (pairs, is_edge), n = pairs_of(graph), graph.num_nodes
        bits = (torch.arange(2 ** pairs.shape[1])[:, None] >> torch.arange(pairs.shape[1])) & 1
        present = torch.tensor([q, 1.0 - p], dtype=torch.double)[is_edge.long()]
        chance = torch.where(bits.bool(), present, 1.0 - present).prod(1)
        bits, self.weight = bits[chance > 0], chance[chance > 0]
        self.graph, self.distribution, self.count = graph, distribution, len(bits)
        self.copies = copies(graph, self.count)
        dense = torch.zeros(self.count, n, n, dtype=torch.bool)
        dense[:, pairs[0], pairs[1]] = bits.bool()
        self.dense = dense if graph.directed else dense | dense.mT
        self.view = view_of(replace(distribution, graph=self.copies), self.dense)

    def under(self, variant: Variant) -> AllViews:
        """The same views, corrected in another way; nothing that was computed travels along."""
        other = object.__new__(AllViews)
        other.__dict__.update(self.__dict__)
        other.distribution = replace(self.distribution, variant=variant)
        other.view = View(replace(other.distribution, graph=self.copies), self.view.kept, self.view.added)
        return other

    def repeat(self, x: Tensor) -> Tensor:
        """One copy of values of nodes or edges for each view."""
        return x.repeat(self.count, *[1] * (x.dim() - 1))

    def aggregate(self, build: Build, x: Tensor | Messages) -> Tensor:
        """The aggregation of every view, [K, n, ...]."""
        nodes = x.nodes if isinstance(x, Messages) else x
        copied = Messages(self.repeat(nodes), self.repeat(x.edges)) if isinstance(x, Messages) else self.repeat(x)
        over = Adjacency(self.copies, self.view.distribution, self.view)
        return over.aggregate(build(self.copies, self.repeat, nodes.dtype), copied).view(self.count, *nodes.shape)

    def coefficients(self, build: Build) -> tuple[Tensor, Tensor]:
        """α'_ij of every view, dense [K, n, n] or [K, n, n, H], and the loops', [K, n] or [K, n, H]."""
        weights, n = build(self.copies, self.repeat, torch.double).on(self.view), self.graph.num_nodes
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

    def corrected_messages(self, clean: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
        """m̃_ijc with *enumerated* E[α'], [n, n, C]: α/E m_j on edges, m_j − μ_i on non-edges (Prop. 3).

        ``clean`` [E] and ``alpha`` [K, n, n] are coefficients of one head, ``m`` [n, C] its messages.
        """
        graph, mean, variant = self.graph, self.mean(alpha), self.distribution.variant
        edge, other = adjacency(graph), nonedges(graph)
        factor, centre = edge.double(), torch.zeros_like(m)
        if variant.corrects:
            factor = on_edges(graph, clean) / torch.where(edge, mean, 1.0)
        if variant.centres:
            weight = mean * other
            total = weight.sum(1, keepdim=True)
            centre = (weight @ m) / torch.where(total > 0, total, 1.0)
        return factor[..., None] * m + other[..., None] * (m - centre[:, None])


@lru_cache(16)
def _all_views(name: str, p: float, q: float) -> AllViews:
    """The views of one of ``GRAPHS``, kept for the next check."""
    return AllViews(Case(name, p, q).distribution())


@dataclass(frozen=True)
class Case:
    """One of ``GRAPHS`` at rates (p, q)."""

    name: str
    p: float
    q: float

    @property
    def graph(self) -> Graph:
        """The graph of this name."""
        return GRAPHS[self.name]

    def distribution(self, variant: Variant = Variant.OF) -> Distribution:
        """A new distribution that keeps nothing yet."""
        return Distribution(self.graph, Rates(self.p, self.q), variant, FINELY)

    def views(self, variant: Variant = Variant.OF) -> AllViews:
        """All views of the graph."""
        return _all_views(self.name, self.p, self.q).under(variant)

    def __str__(self) -> str:
        return f"graph {self.name!r} at p={self.p}, q={self.q}"


CASES = (
    Case("path", 0.3, 0.2),  # nothing special: degrees one and two, both rates inside
    Case("star", 0.9, 0.6),  # a hub that loses nearly all edges, and more additions than edges
    Case("near-clique", 0.5, 0.1),  # a single non-edge: for most nodes the sum over non-neighbors is rounding error
    Case("two-components", 0.0, 0.3),  # p = 0: no edge varies; additions join what was apart
    Case("isolated", 0.4, 0.0),  # q = 0: a node that never receives a message
    Case("isolated", 0.25, 1.0),  # q = 1: every non-edge is there for certain, none varies
    Case("batch", 0.3, 0.2),  # two graphs of different size: no pair across, moments per size
    Case("directed", 0.3, 0.2),  # directed edges, of which one goes both ways: the directions are drawn apart
    Case("directed-sources", 0.6, 0.3),  # nodes that send and receive nothing: without loops their degree may be 0
    Case("directed-batch", 0.3, 0.2),  # two directed graphs: 4,096 views
    Case("cycle-chord", 0.5, 0.1),  # equal degrees on edges and on non-edges; 32,768 views
)


def error(found: Tensor, target: Tensor, scale: Tensor | None = None) -> float:
    """Largest deviation, relative to the largest entry of the target (or of ``scale``)."""
    size = (target if scale is None else scale).detach().abs().max()
    return float((found - target).detach().abs().max() / size.clamp(min=1e-300))  # both may be all zero


def expect(
    found: Tensor, target: Tensor, tolerance: float, what: str, case: object, scale: Tensor | None = None
) -> None:
    """Raise an `AssertionError` that names the case and the error where ``found`` is too far from ``target``."""
    if found.shape != target.shape:
        raise AssertionError(f"{what}, {case}: expected shape {list(target.shape)}, got {list(found.shape)}")
    off = error(found, target, scale)
    if not off <= tolerance:  # an error that is no number fails as well
        single = 1e-9 < off < 1e-6 and tolerance < 1e-9
        hint = "; float32 is as exact as that: counts like graph.degree need .to(self.dtype)" if single else ""
        place = int((found - target).abs().nan_to_num(torch.inf).argmax())
        index = [int(at) for at in torch.unravel_index(torch.tensor(place), found.shape)]
        values = f"got {float(found.flatten()[place]):.6g} for {float(target.flatten()[place]):.6g} at {index}"
        raise AssertionError(f"{what}, {case}: relative error {off:.1e}, allowed {tolerance:.0e}, {values}{hint}")
