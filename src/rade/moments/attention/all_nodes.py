"""Sums of attention weights over all nodes of a graph: no sampling, no pair list, O(n log n)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.moments.attention.prefix import ThresholdSums


class AttentionSums:
    """Sums over all nodes j of i's graph, j = i included, of functions of w_ij = exp(LeakyReLU(s_j + t_i) − shift_i).

    On each side of the kink s_j = −t_i a power of w is a product of a factor of i and a factor of j, and w grows with
    s_j: sums over the nodes sorted by s_j do the rest. Computed in float64, whatever the scores are given in.
    """

    def __init__(self, s: Tensor, t: Tensor, slope: float, batch: Tensor) -> None:
        """Scores of the sources `s` and targets `t`, [n, H]; `batch` [n] numbers the graph of each node."""
        if slope < 0:
            raise ValueError(f"slope of LeakyReLU must be >= 0, got {slope}; weights must not fall as scores grow")
        self.s, self.t, self.slope = s.double(), t.double(), slope
        heads = torch.arange(s.shape[1], device=s.device)
        self.segment = (batch[:, None] * s.shape[1] + heads).flatten()  # a head of a graph, [n·H]

    def power_sum(self, power: int, x: Tensor, shift: Tensor, below: Tensor | None = None) -> Tensor:
        """Σ_j w_ij^k x_j over all j of i's graph, or those with s_j < below_i; x [n, H, F], shift and below [n, H]."""
        whole = torch.full_like(self.s, torch.inf)
        if power >= 0:
            return self._one_sided(power, x, shift, whole if below is None else below)
        # Negative powers peak at the low end, so they are summed from the high end and what lies above is taken off.
        total = self._one_sided(power, x, shift, -whole)
        return total if below is None else total - self._one_sided(power, x, shift, below)

    def _one_sided(self, power: int, x: Tensor, shift: Tensor, cut: Tensor) -> Tensor:
        """The power sum over the nodes below the cut (k ≥ 0) or above it (k < 0), by queries at kink and cut."""
        up = power >= 0
        sums, factor = self.queries(cut, [1.0, self.slope], [power, power], 2 if up else 0, shift)
        # If no node lies beyond the kink, its branch must not be summed over all nodes and taken off again.
        direction, at_kink = (1 if up else -1), sums.threshold[: self.t.numel()] + self.t.flatten()
        past = ((cut + self.t).flatten() * direction > 0) & (at_kink * direction >= 0)
        # Up to the kink the slope is `slope`, past it 1; seen from the high end it is the other way round.
        inner, outer = (1, 0) if up else (0, 1)
        sign = self.s.new_zeros(2, past.numel(), 2)
        sign[0, past, inner], sign[0, past, outer] = 1.0, -1.0
        sign[1, past, outer], sign[1, ~past, inner] = 1.0, 1.0
        return _gather(sums, sums.operator((sign * factor).flatten(0, 1)), x)

    def queries(
        self, cut: Tensor, slopes: list[float], powers: list[int], left: int, level: Tensor
    ) -> tuple[ThresholdSums, Tensor]:
        """Two queries for each target, at the kink and at `cut` [n, H], and (w/e^level)^p at their origins, [2, R, K].

        Column k continues the branch of slope `slopes[k]` to all s; the first `left` sum below, the others above.
        """
        slope, power = self.s.new_tensor(slopes), self.s.new_tensor(powers)
        target = torch.arange(self.segment.numel(), device=self.segment.device).repeat(2)
        thresholds = torch.cat([-self.t.flatten(), cut.flatten()])
        sums = ThresholdSums(self.s.flatten(), self.segment, thresholds, target, slope * power, left)
        z = sums.origin.view(2, -1) + self.t.flatten()
        # First log w, then its multiples: rounding that all powers share is no more than a tiny change of w, whereas
        # separate roundings would be magnified by the alternating coefficients of a polynomial.
        exponent = (z[..., None] * slope - level.flatten()[:, None]) * power
        # What would overflow stands before an empty sum (0·∞), or else the true result overflows as well.
        return sums, exponent.clamp(max=700.0).exp()


class AttentionKernel:
    """K_ij = w^r φ_i(w) at w = w_ij, for φ_i smooth on [0, ∞) and w^r φ_i(w) smooth in 1/w at ∞.

    With u = w/M_i:  K = M_i^r Σ_k a_ik u^{k+r} for u < 1,  K = Σ_k b_ik u^{−k} for u ≥ 1,
    where a interpolates φ_i(M_i u) on [0, 1], and b interpolates w^r φ_i(w) as a function of 1/u on [0, 1].

    With the paper's φ and M = E[denominator] every K_ij is within 0.3 %, for σ² up to 10^5 M². One heavy non-neighbor
    makes σ² as large as M²/q: above M, K then rises from 1/u = 0 like 1 + σ²/(M u)², and degree 6 at Chebyshev points
    is off by 80 % at σ² = 10^4 M². Hence three degrees more there, and points that crowd together at 1/u = 0.
    """

    def __init__(
        self,
        sums: AttentionSums,
        phi: Callable[[Tensor], Tensor],
        split: Tensor,
        power: int,
        shift: Tensor,
        degree: int = 6,
    ) -> None:
        """`phi` maps weights [P, n, H] to φ_i at each; `split` [n, H] is M_i > 0, best where φ_i bends."""
        self.sums, self.power = sums, power
        split = split.double()
        points, fit = _interpolation(split, degree, crowding=1.0)
        self.low = torch.einsum("kp,pnh->nhk", fit, phi(split * points).double()) * split[..., None] ** power  # M^r a
        points, fit = _interpolation(split, degree + 3, crowding=1.5)
        self.high = torch.einsum("kp,pnh->nhk", fit, phi(split / points).double() * (split / points) ** power)  # b
        self.level = split.log() + shift  # LeakyReLU(s + t) at u = 1
        inverse = torch.where(self.level >= 0, self.level, self.level / sums.slope if sums.slope > 0 else -torch.inf)
        self.cut = (inverse - sums.t).detach()
        self.queries, self.operator = self._build()

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j K_ij x_j over all j of i's graph, j = i included: [n, H, F] → [n, H, F]."""
        return _gather(self.queries, self.operator, x)

    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """K at the given pairs, [P, H], by the polynomials that `apply` sums: what is taken off cancels to rounding."""
        sums = self.sums
        exponent = leaky_relu(sums.s[source] + sums.t[target], sums.slope) - self.level[target]
        below = sums.s[source] < self.cut[target]
        u = torch.where(below, exponent, -exponent).exp()
        low, high = _polynomial(self.low[target], u), _polynomial(self.high[target], u)
        return torch.where(below, u**self.power * low, high)

    def _build(self) -> tuple[ThresholdSums, tuple[Tensor, Tensor]]:
        """The two queries of each target: columns are powers ≥ r below, then 0, −1, … above, each on both branches.

        At the split, the branch on which it lies is summed to both sides as if there were no kink. At the kink that
        branch is exchanged for the right one: to the left if the split lies above the kink, else to the right.
        """
        sums, slope = self.sums, self.sums.slope
        ups = [k + self.power for k in range(self.low.shape[-1])]
        downs = [-k for k in range(1, self.high.shape[-1])]  # w^0 is the same on both branches and has one column
        sides = [len(ups), len(ups), 1, len(downs), len(downs)]
        slopes = [a for a, count in zip((1.0, slope, 1.0, 1.0, slope), sides) for _ in range(count)]
        queries, factor = sums.queries(self.cut, slopes, [*ups, *ups, 0, *downs, *downs], 2 * len(ups), self.level)
        signs = factor.new_tensor(
            [  # below: slope 1, slope a; above: constant, slope 1, slope a
                [[0, 0, 0, 1, -1], [-1, 1, 0, 0, 0]],  # query at the kink, for a split below it and above it
                [[0, 1, 1, 0, 1], [1, 0, 1, 1, 0]],  # query at the split
            ]
        ).repeat_interleave(torch.tensor(sides, device=factor.device), 2)
        sign = signs[:, (self.level >= 0).flatten().long()]  # [2, R, K]
        low, high = self.low.flatten(0, 1), self.high.flatten(0, 1)
        coefficient = torch.cat([low, low, high, high[:, 1:]], 1)  # [R, K]
        return queries, queries.operator((coefficient * sign * factor).flatten(0, 1))


def _polynomial(coefficient: Tensor, u: Tensor) -> Tensor:
    """Σ_k coefficient_k u^k, coefficients along the last axis."""
    value = coefficient[..., -1]
    for k in reversed(range(coefficient.shape[-1] - 1)):
        value = value * u + coefficient[..., k]
    return value


def _gather(sums: ThresholdSums, operator: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
    """Apply to x [n, H, F] and add the two queries of each target."""
    out = sums.apply(operator, x.flatten(0, 1).double())
    return out.view(2, -1, x.shape[-1]).sum(0).view(x.shape).to(x.dtype)


def _interpolation(like: Tensor, degree: int, crowding: float) -> tuple[Tensor, Tensor]:
    """Points of (0, 1), [P, 1, 1], and the matrix from values there to monomial coefficients, [P, P].

    Chebyshev points, raised to the power `crowding` to have more of them near 0.
    """
    angle = (torch.arange(degree + 1, dtype=like.dtype, device=like.device) + 0.5) * (torch.pi / (degree + 1))
    points = ((1 + angle.cos()) / 2) ** crowding
    return points[:, None, None], torch.linalg.inv(torch.linalg.vander(points))
