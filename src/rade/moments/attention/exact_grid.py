"""The exact distribution of attention's denominator on grids of scores, for graphs with too many pairs to list."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.distribution import Rates
from rade.moments.attention.exact import Denominator, Lattice, mixed, terms, variance_from
from rade.moments.attention.grid import Everybody, Grid, PairsOnGrid, Table, over_nonedges
from rade.moments.attention.scores import Scores, list_pairs
from rade.sums import Sums


class DenominatorByGrid(Denominator):
    """E[1/X^r] with X_i = c_i + Σ_k A'_ik w_ik, without the pair in question, on one lattice for all rows.

        L_i(t)     = Σ_edges log(p + (1−p)e^−y) + Σ_others log(1−q + q e^−y) − t c_i,       y = t w_ij
        E[α'_ij^r] = π Σ_k ω_k e^{L_i(t_k)} y^r e^−y / (1 − π + π e^−y),                    r = 1, 2

    Both are products with small tables: of the number of a row's edges at each grid point of log w with the logarithms,
    and of ω e^L with the integrands. So there is nothing of the size of edges × levels.
    """

    grid: Grid  # of the log weights of all pairs that are placed one by one
    edges: PairsOnGrid

    def __init__(self, scores: Scores, rates: Rates, lattice: Lattice, dtype: torch.dtype) -> None:
        self.scores, self.rates, self.dtype, self.graph = scores, rates, dtype, scores.graph
        self.tau = _levels(scores, rates, lattice) * lattice.step  # [K]
        self._place(lattice)
        exponent = self.edges.counts @ self.at_points(self.log_mixed(1.0 - rates.p)).t() + self._of_others()
        self.own = terms((self.tau + scores.own.flatten()[:, None]).to(dtype))[0]  # y of the loop, [R, K]
        weights = lattice.weights(len(self.tau), self.tau).to(dtype)
        self.density = weights * torch.exp(exponent - self.own)  # ω_k e^L, [R, K]

    @abstractmethod
    def _place(self, lattice: Lattice) -> None:
        """Choose the grid, and put the edges on it, and the non-neighbors of every row."""

    @abstractmethod
    def _of_others(self) -> Tensor:
        """Σ_others log(1−q + q e^−y), [R, K]."""

    def on_edges(self, power: int) -> Tensor:
        return self.given(self.edges, power, 1.0 - self.rates.p).double()

    def loop_mean(self) -> Tensor:
        return (self.density * self.own).sum(1).view_as(self.scores.loop).double()

    def given(self, pairs: PairsOnGrid, power: int, rate: float | Tensor) -> Tensor:
        """E[α'^power] of pairs given that they are on, [P, H]."""
        return pairs.read(self.density @ self.at_points(self.integrand(power, rate)))

    def placed(self, beta: Tensor, target: Tensor) -> PairsOnGrid:
        """Pairs on the grid."""
        return PairsOnGrid(beta, target, self.graph.num_nodes, self.grid)

    def at_points(self, table: Table) -> Tensor:
        """A table at the points of the grid of log weights, [K, points]."""
        return table(self.grid.points(self.tau)).to(self.dtype)

    def log_mixed(self, rate: float | Tensor) -> Table:
        """log(1 − π + π e^−y)."""
        return lambda log_weight: mixed(rate, terms(self.tau[:, None] + log_weight)[1]).log()

    def integrand(self, power: int, rate: float | Tensor) -> Table:
        """y^power e^−y/(1 − π + π e^−y)."""

        def table(log_weight: Tensor) -> Tensor:
            y, u = terms(self.tau[:, None] + log_weight)
            return y**power * u / mixed(rate, u)

        return table


class DenominatorByList(DenominatorByGrid):
    """With all non-neighbors one by one."""

    def _place(self, lattice: Lattice) -> None:
        self.pattern = list_pairs(self.graph).pattern
        beta = self.scores.at(self.pattern.target, self.pattern.source)
        self.grid = Grid.over(torch.cat([beta.detach(), self.scores.edge.detach()]), lattice.spacing, self.dtype)
        self.others = self.placed(beta, self.pattern.target)
        self.edges = self.placed(self.scores.edge, self.graph.pattern.target)

    def _of_others(self) -> Tensor:
        return self.others.counts @ self.at_points(self.log_mixed(self.rates.q)).t()

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self._sums(self.rates.q * self.given(self.others, 1, self.rates.q), dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        mean, square = (self.given(self.others, power, self.rates.q) for power in (1, 2))
        return self._sums(variance_from(mean, square, self.rates.q), dtype)

    def _sums(self, values: Tensor, dtype: torch.dtype) -> Sums:
        return Sums(self.graph, listed=((self.pattern, values.to(dtype)),))


class DenominatorOfAll(DenominatorByGrid):
    """Without a list: everybody − neighbors − the node itself."""

    def _place(self, lattice: Lattice) -> None:
        scores, pattern = self.scores, self.graph.pattern
        beta, nodes = scores.at(pattern.target, pattern.source), torch.arange(pattern.rows, device=self.tau.device)
        ends = beta if scores.uniform else torch.cat([beta, scores.edge])
        self.grid = Grid.over(ends.detach(), lattice.spacing, self.dtype)
        self.edges = self.neighbors = self.placed(beta, pattern.target)
        if not scores.uniform:  # of their own, other than those that they would have if they were no edges
            self.edges = self.placed(scores.edge, pattern.target)
        self.everybody = Everybody(scores, lattice.spacing / 2, lattice.points, self.dtype)
        self.y, self.u = terms((self.tau + scores.at(nodes, nodes).flatten()[:, None]).to(self.dtype))

    def _of_others(self) -> Tensor:
        table = self.log_mixed(q := self.rates.q)
        near = self.neighbors.counts @ self.at_points(table).t()
        return self.everybody.count(table) - near - mixed(q, self.u).log()

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self._sums(1, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        """E[α'²]: E[α']² is at most q times it."""
        return self._sums(2, dtype)

    def _sums(self, power: int, dtype: torch.dtype) -> Sums:
        q = self.rates.q
        density, table = q * self.density, self.integrand(power, q)
        edges = self.neighbors.read(density @ self.at_points(table))
        own = (density * self.y**power * self.u / mixed(q, self.u)).sum(1).view_as(self.scores.loop)
        return over_nonedges(self.graph, partial(self.everybody.sums, table, density), edges, own, dtype)


def _levels(scores: Scores, rates: Rates, lattice: Lattice) -> Tensor:
    """All levels at which X_i of some row is neither too small nor too large, [K]."""
    graph, s, t = scores.graph, scores.s.detach(), scores.t.detach()
    p, q = rates.numbers
    expected = 1.0 + (1.0 - p) * graph.degree + (q * graph.nonneighbors).clamp(min=1.0)
    top = (scores.heaviest() + expected.log()[:, None]).max()
    lightest = torch.cat([scores.edge.detach().flatten(), leaky_relu(s.min() + t.min(), scores.slope)[None]])
    bottom = scores.own.detach().min() if scores.self_loops else lightest.min()
    first, last = lattice.first_level(top), lattice.last_level(bottom)
    return torch.arange(int(first), int(last) + 1, dtype=torch.double, device=s.device)
