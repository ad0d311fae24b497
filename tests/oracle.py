"""All views of a tiny graph at once, as one batch of copies: means and variances without sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.correction import propagate
from rade.graph import Graph
from rade.pairs import symmetric_pattern
from rade.view import Law, View


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


def pairs_of(graph: Graph) -> tuple[Tensor, Tensor]:
    """All unordered pairs within a graph, lexicographic: [2, P], and which of them are edges, [P]."""
    low, high = torch.triu_indices(graph.num_nodes, graph.num_nodes, 1)
    same = graph.batch[low] == graph.batch[high]
    pairs = torch.stack([low[same], high[same]])
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    dense[graph.pattern.target, graph.pattern.source] = True
    return pairs, dense[pairs[0], pairs[1]]


class AllViews:
    """Every view of ``graph`` with its probability; copy k of the graph carries view k."""

    def __init__(self, graph: Graph, law: Law) -> None:
        pairs, is_edge = pairs_of(graph)
        count, n = 2 ** pairs.shape[1], graph.num_nodes
        bits = (torch.arange(count)[:, None] >> torch.arange(pairs.shape[1])) & 1
        present = torch.where(is_edge, 1.0 - float(law.rates.p), float(law.rates.q)).double()
        chance = torch.where(bits.bool(), present, 1.0 - present).prod(1)
        bits, self.weight = bits[chance > 0], chance[chance > 0]
        self.graph, self.law, self.count = graph, law, len(bits)
        offset = torch.arange(self.count)[:, None] * n
        copied = (graph.edge_index[:, None] + offset).reshape(2, -1)
        batch = (graph.batch + torch.arange(self.count)[:, None] * graph.num_graphs).flatten()
        self.copies = Graph.from_edge_index(copied, n * self.count, batch)
        adjacency = torch.zeros(self.count, n, n, dtype=torch.bool)
        adjacency[:, pairs[0], pairs[1]] = bits.bool()
        adjacency = adjacency | adjacency.mT
        self.adjacency = adjacency
        copy = self.copies.pattern.target // n
        kept = adjacency[copy, self.copies.pattern.target % n, self.copies.pattern.source % n]
        added = adjacency[:, pairs[0][~is_edge], pairs[1][~is_edge]].nonzero()
        which = pairs[:, ~is_edge][:, added[:, 1]] + added[:, 0] * n
        self.view = View(self.copies, law, kept, symmetric_pattern(which[0], which[1], n * self.count))

    def repeat(self, x: Tensor) -> Tensor:
        return x.repeat(self.count, *[1] * (x.dim() - 1))

    def aggregate(self, build, x: Tensor) -> Tensor:
        """The aggregation of every view, [K, n, ...]; ``build(graph, repeat)`` makes the coefficients."""
        out = propagate(self.view, build(self.copies, self.repeat), self.repeat(x))
        return out.view(self.count, *x.shape)

    def mean(self, values: Tensor) -> Tensor:
        return torch.einsum("k,k...->...", self.weight.to(values.dtype), values)

    def variance(self, values: Tensor) -> Tensor:
        return self.mean((values - self.mean(values)).square())
