"""The exact distribution of attention's denominator by cells of scores: for graphs too large to list all pairs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rade.distribution import Rates, number
from rade.moments.attention import exact
from rade.moments.attention.cells import POINTS, WIDTH, AttentionKernel, NodesInCells
from rade.moments.attention.exact import FAINT, LN2, SILENT, Denominator, mixed, variance_from
from rade.sums import Sums

AWAKE = math.ceil((SILENT - FAINT + 2 * WIDTH) / LN2) + 1  # levels at which a column is neither faint nor silent


class DenominatorByCells(Denominator):
    """E[1/X^r] with X_i = c_i + Σ_k A'_ik w_ik, without the pair in question, on one lattice for each cell of kinks.

        L_i(t)     = Σ_edges log(p + (1−p)e^−y) + Σ_others log(1−q + q e^−y) − t c_i,       y = t w_ij
        E[α'_ij^r] = π Σ_k ω_k e^{L_i(2^k)} y^r e^−y / (1 − π + π e^−y),                    r = 1, 2

    Both sums are matrix products: of who stands where with tables of the logarithms, and of ω e^L with tables of the
    integrands. Tables depend on the cells alone, so they are small, and so is the time: O(n · columns · levels).
    """

    def __init__(self, nodes: NodesInCells, rates: Rates) -> None:
        self.nodes, self.scores, self.rates = nodes, nodes.scores, rates
        self.parts = [_Part(nodes, rates, cell) for cell in range(nodes.cells.kink_at.numel())]
        order = torch.cat([part.rows for part in self.parts])
        self.position = torch.empty_like(order).index_copy_(0, order, torch.arange(order.numel(), device=order.device))

    def edge_mean(self) -> Tensor:
        return self.nodes.edges(self._given_on(1, 1.0 - self.rates.p))

    def edge_variance(self) -> Tensor:
        square = self.nodes.edges(self._given_on(2, 1.0 - self.rates.p))
        return variance_from(self.edge_mean(), square, 1.0 - self.rates.p)

    def loop_mean(self) -> Tensor:
        return self._rows([(part.density * part.loop).sum(1) for part in self.parts]).view_as(self.scores.loop)

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self._over_nonedges(self.rates.q * self._given_on(1, self.rates.q), dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        mean, square = (self._given_on(power, self.rates.q) for power in (1, 2))
        # Not kept from falling below zero as on edges: that would bend what is interpolated.
        return self._over_nonedges(self.rates.q * (square - self.rates.q * mean.square()), dtype)

    def _given_on(self, power: int, rate: float | Tensor) -> Tensor:
        """E[α'^power] of a pair at that rate, given that it is on, at the points of all columns, [R, B + 1, POINTS]."""
        return self._rows([part.columns(power, rate) for part in self.parts])

    def _over_nonedges(self, values: Tensor, dtype: torch.dtype) -> Sums:
        return AttentionKernel(self.nodes, values, dtype).over_nonedges()

    def _rows(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts).index_select(0, self.position)


class _Part:
    """The rows whose kinks share a cell, and the lattice for them."""

    def __init__(self, nodes: NodesInCells, rates: Rates, cell: int) -> None:
        self.nodes, scores = nodes, nodes.scores
        self.rows = (nodes.cells.kink_cell == cell).nonzero().squeeze(1)
        self.log_weight = nodes.cells.log_weights(cell, scores.slope)  # [POINTS, B + 1, POINTS]
        own = scores.own.flatten()[self.rows]
        level = self._levels(own.detach(), rates)
        self.tau = level * LN2  # [K]
        self.kink_weight = nodes.cells.kink_weight.index_select(0, self.rows)  # [rows, POINTS]
        _, u = self._terms()
        shape = (len(self.tau) * POINTS, -1)
        exponent = self._binned(nodes.neighbors) @ mixed(1.0 - rates.p, u).log().view(shape).t()
        exponent = exponent + self._binned(nodes.others) @ mixed(rates.q, u).log().view(shape).t()
        exponent = (exponent.view(-1, len(self.tau), POINTS) * self.kink_weight[:, None]).sum(2)
        self.loop = (self.tau + own[:, None]).clamp(max=exact.LARGEST).exp()
        self.density = exact.node_weights(len(level), level) * torch.exp(exponent - self.loop)  # ω_k e^L, [rows, K]

    def columns(self, power: int, rate: float | Tensor) -> Tensor:
        """Σ_k ω_k e^L y^power e^−y/(1 − π + π e^−y) at the points of all columns, [rows, B + 1, POINTS]."""
        y, u = self._terms()
        weights = (self.density[..., None] * self.kink_weight[:, None]).flatten(1)
        values: Tensor = weights @ (y**power * u / mixed(rate, u)).view(weights.shape[1], -1)
        return values.view(len(self.rows), -1, POINTS)

    def _terms(self) -> tuple[Tensor, Tensor]:
        return exact.terms(self.tau[:, None, None, None] + self.log_weight)  # [K, POINTS, B + 1, POINTS]

    def _binned(self, who: Tensor) -> Tensor:
        return who.index_select(0, self.rows).flatten(1)

    def _levels(self, own: Tensor, rates: Rates) -> Tensor:
        """The levels of these rows, [K]: without those at which no source is neither faint nor silent."""
        high = self.log_weight.amax((0, 2))  # [B + 1]
        graph, heads = self.nodes.graph, self.nodes.heads
        expected = 1.0 + (1.0 - number(rates.p)) * graph.degree + (number(rates.q) * graph.nonneighbors).clamp(min=1.0)
        top = high.max() + expected.repeat_interleave(heads)[self.rows].max().log()
        bottom = own.min() if self.nodes.scores.self_loops else self.log_weight.min()
        first, last = exact.first_level(top), exact.last_level(bottom)
        step = torch.arange(AWAKE, dtype=own.dtype, device=own.device)
        awake = torch.ceil((FAINT - high) / LN2)[:, None] + step
        kept: Tensor = torch.unique(torch.cat([first + step[:4], awake.flatten()]).clamp(min=first, max=last))
        return kept
