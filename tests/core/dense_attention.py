"""Attention's moments by brute force: a fine integral over every pair, dense."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.graph.graph import Graph
from rade.moments import Attention
from rade.testing.oracle import adjacency, nonedges

SLOPE = 0.2


def random_graph(nodes: int, edges: int, seed: int = 0) -> Graph:
    """About ``edges`` edges, the first node isolated where there are enough nodes."""
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.triu_indices(nodes, nodes, 1)
    free = low > 0
    chosen = free.nonzero().squeeze(1)[torch.randperm(int(free.sum()), generator=generator)[:edges]]
    pairs = torch.stack([low[chosen], high[chosen]])
    return Graph.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), nodes)


def mixed(graphs: list[Graph], seed: int = 0) -> Graph:
    """A batch whose nodes do not come graph by graph."""
    first = torch.tensor([0, *(graph.num_nodes for graph in graphs)]).cumsum(0)
    edges = torch.cat([graph.edge_index + begin for graph, begin in zip(graphs, first.tolist())], 1)
    batch = torch.repeat_interleave(torch.arange(len(graphs)), first.diff())
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edge_index(torch.argsort(order)[edges], len(batch), batch[order])


@dataclass
class Case:
    """A graph with scores [n, H] and rates; differentiable in all of them."""

    graph: Graph
    s: Tensor
    t: Tensor
    p: float | Tensor
    q: float | Tensor
    loops: bool

    def attention(self, dtype: torch.dtype = torch.double) -> Attention:
        return Attention(self.graph, self.s.to(dtype), self.t.to(dtype), SLOPE, self.loops)

    @property
    def rate(self) -> Tensor:
        """Probability of every pair, [n, n]."""
        edge, other = adjacency(self.graph), nonedges(self.graph)
        return torch.where(edge, 1.0 - self.p, 0.0) + torch.where(other, self.q, 0.0).double()

    @property
    def log_weight(self) -> Tensor:
        """[n, n, H], target first."""
        return leaky_relu(self.s + self.t[:, None], SLOPE)

    @property
    def own(self) -> Tensor:
        beta = leaky_relu(self.s + self.t, SLOPE)
        return beta if self.loops else torch.full_like(beta, -torch.inf)


def fine_integral(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """E[α'], E[α'²] of all pairs, [n, n, H], and E[α'] of loops, [n, H].

    ∫ y^r e^−y exp(L − l) d(log t) by the trapezoid rule over every scale there is, step 0.3 (error 1e-13).
    """
    beta, rate = case.log_weight, case.rate[..., None]
    begin, end = float(-beta.detach().max()) - math.log(len(beta)) - 26, float(-beta.detach().min()) + 4.5
    mean, square, loop = (torch.zeros_like(x) for x in (beta, beta, case.own))
    for tau in torch.arange(begin, end, 0.3, dtype=torch.double):
        y, own = (tau + beta).clamp(max=6.5).exp(), (tau + case.own).clamp(max=6.5).exp()
        each = torch.log((1.0 - rate) + rate * torch.exp(-y))  # y ≤ e^6.5 keeps it finite at rate 1
        total = each.sum(1) - own
        given = y * torch.exp(total[:, None] - each - y)
        mean, square = mean + 0.3 * rate * given, square + 0.3 * rate * y * given
        loop = loop + 0.3 * own * total.exp()
    return mean, square, loop
