"""The exact distribution of attention's denominator on grids of scores, for graphs with too many pairs to list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.distribution import Rates, number
from rade.moments.attention.exact import Denominator, Lattice, mixed, terms, variance_from
from rade.moments.attention.grid import Everybody, Grid, PairsOnGrid, Table, over_nonedges
from rade.moments.attention.scores import Scores, list_pairs, ordered_pairs
from rade.sums import Sums


class DenominatorByGrid(Denominator):
    """E[1/X^r] with X_i = c_i + Σ_k A'_ik w_ik, without the pair in question, on one lattice for all rows.

        L_i(t)     = Σ_edges log(p + (1−p)e^−y) + Σ_others log(1−q + q e^−y) − t c_i,       y = t w_ij
        E[α'_ij^r] = π Σ_k ω_k e^{L_i(t_k)} y^r e^−y / (1 − π + π e^−y),                    r = 1, 2

    Both are products with small tables: of the number of a row's edges at each grid point of log w with the logarithms,
    and of ω e^L with the integrands. So there is nothing of the size of edges × levels.
    """

    def __init__(self, scores: Scores, rates: Rates, lattice: Lattice, dtype: torch.dtype) -> None:
        self.scores, self.rates, self.dtype, graph = scores, rates, dtype, scores.graph
        self.tau = _levels(scores, rates, lattice) * lattice.step  # [K]
        listed = ordered_pairs(graph) * scores.heads <= lattice.listed
        self.others: _Others = (_Listed if listed else _Unlisted)(self, lattice)
        self.edges = self.others.edges
        exponent = self.edges.counts @ self.at_points(self.log_mixed(1.0 - rates.p)).t() + self.others.exponent()
        self.own = terms((self.tau + scores.own.flatten()[:, None]).to(dtype))[0]  # y of the loop, [R, K]
        weights = lattice.weights(len(self.tau), self.tau).to(dtype)
        self.density = weights * torch.exp(exponent - self.own)  # ω_k e^L, [R, K]

    def edge_mean(self) -> Tensor:
        return self._on_edges(1)

    def edge_variance(self) -> Tensor:
        return variance_from(self._on_edges(1), self._on_edges(2), 1.0 - self.rates.p)

    def loop_mean(self) -> Tensor:
        return (self.density * self.own).sum(1).view_as(self.scores.loop).double()

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self.others.sums(1, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        return self.others.sums(2, dtype)

    def _on_edges(self, power: int) -> Tensor:
        """E[α'^power] given that the edge is on, [E, H]."""
        return self.edges.read(self.density @ self.at_points(self.integrand(power, 1.0 - self.rates.p))).double()

    def at_points(self, table: Table) -> Tensor:
        """A table at the points of the grid of log weights, [K, points]."""
        return table(self.others.grid.points(self.tau)).to(self.dtype)

    def log_mixed(self, rate: float | Tensor) -> Table:
        """log(1 − π + π e^−y)."""
        return lambda log_weight: mixed(rate, terms(self.tau[:, None] + log_weight)[1]).log()

    def integrand(self, power: int, rate: float | Tensor) -> Table:
        """y^power e^−y/(1 − π + π e^−y)."""

        def table(log_weight: Tensor) -> Tensor:
            y, u = terms(self.tau[:, None] + log_weight)
            return y**power * u / mixed(rate, u)

        return table


class _Others(ABC):
    """The non-neighbors of every row."""

    grid: Grid  # of the log weights of all pairs that are placed one by one
    edges: PairsOnGrid

    def __init__(self, owner: DenominatorByGrid) -> None:
        self.owner, self.scores, self.graph = owner, owner.scores, owner.scores.graph

    def place(self, beta: Tensor, target: Tensor) -> PairsOnGrid:
        """Pairs on the grid."""
        return PairsOnGrid(beta, target, self.graph.num_nodes, self.grid)

    @abstractmethod
    def exponent(self) -> Tensor:
        """Σ_others log(1−q + q e^−y), [R, K]."""

    @abstractmethod
    def sums(self, power: int, dtype: torch.dtype) -> Sums:
        """E[α'] for power 1, Var[α'] for power 2."""


class _Listed(_Others):
    """One by one."""

    def __init__(self, owner: DenominatorByGrid, lattice: Lattice) -> None:
        super().__init__(owner)
        self.pattern = list_pairs(self.graph).pattern
        beta = self.scores.at(self.pattern.target, self.pattern.source)
        self.grid = Grid.over(torch.cat([beta.detach(), self.scores.edge.detach()]), lattice.spacing, owner.dtype)
        self.pairs = self.place(beta, self.pattern.target)
        self.edges = self.place(self.scores.edge, self.graph.pattern.target)

    def exponent(self) -> Tensor:
        return self.pairs.counts @ self.owner.at_points(self.owner.log_mixed(self.owner.rates.q)).t()

    def sums(self, power: int, dtype: torch.dtype) -> Sums:
        q, owner = self.owner.rates.q, self.owner
        mean, *square = (
            self.pairs.read(owner.density @ owner.at_points(owner.integrand(r, q))) for r in range(1, power + 1)
        )
        values = variance_from(mean, square[0], q) if square else q * mean
        return Sums(self.graph, listed=((self.pattern, values.to(dtype)),))


class _Unlisted(_Others):
    """Everybody − neighbors − the node itself."""

    def __init__(self, owner: DenominatorByGrid, lattice: Lattice) -> None:
        super().__init__(owner)
        pattern, nodes = self.graph.pattern, torch.arange(self.graph.num_nodes, device=self.graph.device)
        beta = self.scores.at(pattern.target, pattern.source)
        ends = beta if self.scores.uniform else torch.cat([beta, self.scores.edge])
        self.grid = Grid.over(ends.detach(), lattice.spacing, owner.dtype)
        self.edges = self.neighbors = self.place(beta, pattern.target)
        if not self.scores.uniform:  # of their own, other than those that they would have if they were no edges
            self.edges = self.place(self.scores.edge, pattern.target)
        self.everybody = Everybody(self.scores, lattice.spacing / 2, lattice.points, owner.dtype)
        self.y, self.u = terms((owner.tau + self.scores.at(nodes, nodes).flatten()[:, None]).to(owner.dtype))

    def exponent(self) -> Tensor:
        table = self.owner.log_mixed(q := self.owner.rates.q)
        near = self.neighbors.counts @ self.owner.at_points(table).t()
        return self.everybody.count(table) - near - mixed(q, self.u).log()

    def sums(self, power: int, dtype: torch.dtype) -> Sums:
        """As variance E[α'²]: E[α']² is at most q times it."""
        q, owner = self.owner.rates.q, self.owner
        density, table = q * owner.density, owner.integrand(power, q)
        edges = self.neighbors.read(density @ owner.at_points(table))
        own = (density * self.y**power * self.u / mixed(q, self.u)).sum(1).view_as(self.scores.loop)
        return over_nonedges(self.graph, partial(self.everybody.sums, table, density), edges, own, dtype)


def _levels(scores: Scores, rates: Rates, lattice: Lattice) -> Tensor:
    """All levels at which X_i of some row is neither too small nor too large, [K]."""
    graph, s, t = scores.graph, scores.s.detach(), scores.t.detach()
    expected = 1.0 + (1.0 - number(rates.p)) * graph.degree + (number(rates.q) * graph.nonneighbors).clamp(min=1.0)
    top = (scores.heaviest() + expected.log()[:, None]).max()
    lightest = torch.cat([scores.edge.detach().flatten(), leaky_relu(s.min() + t.min(), scores.slope)[None]])
    bottom = scores.own.detach().min() if scores.self_loops else lightest.min()
    first, last = lattice.first_level(top), lattice.last_level(bottom)
    return torch.arange(int(first), int(last) + 1, dtype=torch.double, device=s.device)
