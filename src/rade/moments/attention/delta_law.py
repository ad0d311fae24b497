"""The paper's law of attention's denominator: a second-order expansion around its mean (Lemmas C.2, E.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from rade.graph.operator import Operator, Sparse, over_nonedges
from rade.graph.sparse import Pattern
from rade.moments.attention.all_nodes import AttentionKernel, AttentionSums
from rade.moments.attention.scores import PairScores, Scores
from rade.moments.inverse import expansion
from rade.view.rates import Rates

HUGE = 300.0  # log of a weight relative to the shift; its square is still a number
PerWeight = Callable[[Tensor, Tensor, Tensor], Tensor]  # (w, mean of X, variance of X) → a value


class Others(Protocol):
    """The non-neighbors of every node, with weights relative to e^shift."""

    shift: Tensor  # [n, H], at least what was asked for; constant in derivatives

    def total(self, power: int) -> Tensor:
        """Σ_{j∉N(i)} w_ij^power, [n, H]."""

    def operator(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} value(w_ij, mean_i, variance_i) x_j."""


class DeltaLaw:
    """φ = E[1/X] ≈ 1/D + σ²/D³ and E[1/X²] ≈ 1/D² + 3σ²/D⁴, D and σ² without the pair's own part (Eq. C.9, E.2)."""

    def __init__(self, scores: PairScores, rates: Rates, others: Callable[[Any, Tensor], Others]) -> None:
        self.scores, self.rates, pattern = scores, rates, scores.graph.pattern
        self.others = others(scores, scores.heaviest())
        shift = self.others.shift
        self.edge, self.own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
        p, q = rates.p, rates.q
        mean = self.own + (1.0 - p) * pattern.row_sum(self.edge) + q * self.others.total(1)
        self.mean = torch.where(mean > 0, mean, 1.0)
        self.variance = p * (1.0 - p) * pattern.row_sum(self.edge.square()) + q * (1.0 - q) * self.others.total(2)

    def edge_mean(self) -> Tensor:
        """E[α'_ij] given that the edge is on, [E, H]."""
        return self.edge * self._edge(1)

    def edge_variance(self) -> Tensor:
        """Var[α'_ij] = π w² E[1/X²] − (π w E[1/X])², [E, H]."""
        stay = 1.0 - self.rates.p
        first, second = stay * self.edge * self._edge(1), stay * self.edge.square() * self._edge(2)
        # The two expansions are separate: their difference can fall below zero where σ² exceeds D².
        return (second - first.square()).clamp(min=0)

    def loop_mean(self) -> Tensor:
        """E[α'_ii], [n, H]."""
        return self.own * expansion(self.mean, self.variance, 1)

    def nonedge_mean(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} E[α'_ij] x_j."""
        return self.others.operator(self._nonedge_mean, self.mean, self.variance, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} Var[α'_ij] x_j."""

        def value(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
            second = self.rates.q * w.square() * self._nonedge(w, mean, variance, 2)
            return second - self._nonedge_mean(w, mean, variance).square()

        return self.others.operator(value, self.mean, self.variance, dtype)

    def _edge(self, power: int) -> Tensor:
        """E[(w + S_ij)^−power] for an edge: its own part leaves the sums and w enters."""
        p, target = self.rates.p, self.scores.graph.pattern.target
        variance = (self.variance[target] - p * (1.0 - p) * self.edge.square()).clamp(min=0)
        return expansion(self.mean[target] + p * self.edge, variance, power)

    def _nonedge_mean(self, w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return self.rates.q * w * self._nonedge(w, mean, variance, 1)

    def _nonedge(self, w: Tensor, mean: Tensor, variance: Tensor, power: int) -> Tensor:
        """The same for a non-edge; smooth in w, for interpolation, hence not clamped."""
        q = self.rates.q
        return expansion(mean + (1.0 - q) * w, variance - q * (1.0 - q) * w.square(), power)


class OthersInCells:
    """All non-neighbors, by cells of scores."""

    def __init__(self, scores: Scores, shift: Tensor) -> None:
        self.sums = AttentionSums(scores)
        log_weight = self.sums.cells.log_weights_of(scores.slope, scores.t.flatten())
        self.shift, self.shape, self.weight = shift, shift.shape, torch.exp(log_weight - shift.flatten()[:, None, None])

    def total(self, power: int) -> Tensor:
        """Over who stands where."""
        return (self.sums.others * self.weight.pow(power)).sum((1, 2)).view(self.shape).clamp(min=0)

    def operator(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Operator:
        """All pairs − edges − loops."""
        values = value(self.weight, mean.flatten()[:, None, None], variance.flatten()[:, None, None])
        return over_nonedges(self.sums.graph, AttentionKernel(self.sums, values, dtype))


class ListedOthers:
    """Non-neighbors as a list: all of them, or the paper's sample of which each stands for several, ``times`` [P]."""

    def __init__(self, scores: PairScores, shift: Tensor, pattern: Pattern, times: Tensor) -> None:
        self.shift, self.pattern, self.times = shift, pattern, times[:, None]
        beta = scores.at(pattern.target, pattern.source) - shift[pattern.target]
        self.weight = torch.exp(beta.clamp(max=HUGE))

    def total(self, power: int) -> Tensor:
        return self.pattern.row_sum(self.times * self.weight.pow(power))

    def operator(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Operator:
        target = self.pattern.target
        values = self.times * value(self.weight, mean[target], variance[target])
        return Operator((Sparse(self.pattern, values.to(dtype)),))
