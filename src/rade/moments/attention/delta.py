"""The paper's moments of attention's denominator: a second-order expansion around its mean (Lemmas C.2, E.2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.distribution import Rates
from rade.moments.attention.exact import Denominator
from rade.moments.attention.grid import Blocks, Grid, Sources, over_nonedges
from rade.moments.attention.scores import Scores, few_pairs, list_pairs
from rade.moments.degrees import expansion
from rade.sums import Sums

SPACING, MOST_POINTS = 0.125, 256  # of the scores of sources
HUGE = 300.0  # log of a weight relative to the shift; its square is still a number
PerWeight = Callable[[Tensor, Tensor, Tensor], Tensor]  # (w, mean of X, variance of X) → a value


class Others(Protocol):
    """The non-neighbors of every node, with weights relative to `Scores.heaviest`."""

    def total(self, power: int) -> Tensor:
        """Σ_{j∉N(i)} w_ij^power, [n, H]."""

    def sums(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Sums:
        """Σ_{j∉N(i)} value(w_ij, mean_i, variance_i) x_j."""


def all_others(scores: Scores) -> Others:
    """All non-neighbors, summed over as is best."""
    return _Listed(scores) if few_pairs(scores.graph, scores.heads) else _OnGrid(scores)


class ExpandedDenominator(Denominator):
    """φ = E[1/X] ≈ 1/D + σ²/D³ and E[1/X²] ≈ 1/D² + 3σ²/D⁴, D and σ² without the pair's own part (Eq. C.9, E.2)."""

    def __init__(self, scores: Scores, rates: Rates) -> None:
        self.scores, self.rates, pattern = scores, rates, scores.graph.pattern
        self.others, shift = all_others(scores), scores.heaviest()
        self.edge, self.own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
        p, q = rates.p, rates.q
        mean = self.own + (1.0 - p) * pattern.row_sum(self.edge) + q * self.others.total(1)
        self.mean = torch.where(mean > 0, mean, 1.0)
        self.variance = p * (1.0 - p) * pattern.row_sum(self.edge.square()) + q * (1.0 - q) * self.others.total(2)

    def on_edges(self, power: int) -> Tensor:
        """w^r E[(w + S_ij)^−r]: the edge's own part leaves the sums and w enters."""
        p, target = self.rates.p, self.scores.graph.pattern.target
        variance = (self.variance[target] - p * (1.0 - p) * self.edge.square()).clamp(min=0)
        return self.edge.pow(power) * expansion(self.mean[target] + p * self.edge, variance, power)

    def edge_variance(self) -> Tensor:
        """Var[α'_ij] = π w² E[1/X²] − (π w E[1/X])², [E, H]."""
        first, second = ((1.0 - self.rates.p) * self.on_edges(power) for power in (1, 2))
        # The two expansions are separate: their difference can fall below zero where σ² exceeds D².
        return (second - first.square()).clamp(min=0)

    def loop_mean(self) -> Tensor:
        return self.own * expansion(self.mean, self.variance, 1)

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self.others.sums(self._nonedge_mean, self.mean, self.variance, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        def value(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
            second = self.rates.q * w.square() * self._nonedge(w, mean, variance, 2)
            return second - self._nonedge_mean(w, mean, variance).square()

        return self.others.sums(value, self.mean, self.variance, dtype)

    def _nonedge_mean(self, w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return self.rates.q * w * self._nonedge(w, mean, variance, 1)

    def _nonedge(self, w: Tensor, mean: Tensor, variance: Tensor, power: int) -> Tensor:
        """The same for a non-edge; smooth in w, for interpolation, hence not clamped."""
        q = self.rates.q
        return expansion(mean + (1.0 - q) * w, variance - q * (1.0 - q) * w.square(), power)


class _OnGrid(Others):
    """By a grid of the scores of sources."""

    def __init__(self, scores: Scores) -> None:
        self.scores, self.graph, shift = scores, scores.graph, scores.heaviest()
        self.sources = Sources(scores, Grid.over(scores.s.detach(), SPACING, torch.double, MOST_POINTS))
        points = self.sources.grid.points(scores.s)
        log_weight = leaky_relu(points + scores.t.flatten()[:, None], scores.slope)
        self.weight = torch.exp(log_weight - shift.flatten()[:, None])  # [R, points]
        pattern, nodes = self.graph.pattern, torch.arange(self.graph.num_nodes, device=shift.device)
        near = scores.at(pattern.target, pattern.source) - shift.index_select(0, pattern.target)
        self.near, self.own = torch.exp(near), torch.exp(scores.at(nodes, nodes) - shift)
        self.blocks = Blocks(self.sources.segment)

    def total(self, power: int) -> Tensor:
        """Everybody's, less that of neighbors and of the node itself."""
        everybody = self._over_sources(self.weight.pow(power), torch.ones_like(self.weight[:, :1])).view_as(self.own)
        return (everybody - self.graph.pattern.row_sum(self.near.pow(power)) - self.own.pow(power)).clamp(min=0)

    def sums(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Sums:
        target, rows = self.graph.pattern.target, (mean.flatten()[:, None], variance.flatten()[:, None])
        edges, own = value(self.near, mean[target], variance[target]), value(self.own, mean, variance)
        sums = partial(self._over_sources, value(self.weight, *rows))
        return over_nonedges(self.graph, sums, edges, own, dtype)

    def _over_sources(self, values: Tensor, x: Tensor) -> Tensor:
        """Σ_j of values [R, points] read at s_j times x_j, [R, F]."""
        spread = self.sources.spread(x).index_select(0, self.blocks.group)  # [blocks, points, F]
        return self.blocks.scatter(self.blocks.gather(values) @ spread)


class _Listed(Others):
    """As a list of pairs."""

    def __init__(self, scores: Scores) -> None:
        self.graph, self.pattern = scores.graph, list_pairs(scores.graph).pattern
        target = self.pattern.target
        self.weight = torch.exp((scores.at(target, self.pattern.source) - scores.heaviest()[target]).clamp(max=HUGE))

    def total(self, power: int) -> Tensor:
        return self.pattern.row_sum(self.weight.pow(power))

    def sums(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Sums:
        target = self.pattern.target
        return Sums(self.graph, listed=((self.pattern, value(self.weight, mean[target], variance[target]).to(dtype)),))
