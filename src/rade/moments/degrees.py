"""Moments of random degrees: E[X^(−s)] for X = c + Bin(a, 1−p) + Bin(b, q)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.view.view import Law, number

NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/moments.md)


@dataclass(frozen=True, eq=False)
class RandomDegree:
    """The law of X = c + Bin(a, 1−p) + Bin(b, q); a and b [U] in double precision."""

    c: float
    a: Tensor
    b: Tensor

    def mean(self, law: Law) -> Tensor:
        """E[X]."""
        return self.c + self.a * (1.0 - law.rates.p) + self.b * law.rates.q

    def variance(self, law: Law) -> Tensor:
        """Var[X]."""
        p, q = law.rates.p, law.rates.q
        return self.a * p * (1.0 - p) + self.b * q * (1.0 - q)


def exact(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """E[X^−s] = 1/Γ(s) ∫₀^∞ t^(s−1) e^(−ct) (p+(1−p)e^(−t))^a (1−q+q e^(−t))^b dt, by the trapezoid rule in v.

    The substitution t = exp(v − exp(−v))/E[X] makes it converge doubly exponentially; E[X] only sets the scale, so
    it is held fixed in derivatives.
    """
    step = (TO - FROM) / (NODES - 1)
    v = torch.linspace(FROM, TO, NODES, dtype=torch.double, device=degree.a.device)
    t = torch.exp(v - torch.exp(-v)) / degree.mean(law).detach()[:, None]  # [U, nodes]
    # 1 − e^(−t) may round to 1, and 0·log 0 is no number: stop one ulp short, where the integrand is below e^(−36).
    gone = (-torch.expm1(-t)).clamp(max=1.0 - 2.0**-53)
    stay = 1.0 - law.rates.p
    log_density = (
        degree.a[:, None] * torch.log1p(-stay * gone)
        + degree.b[:, None] * torch.log1p(-law.rates.q * gone)
        - degree.c * t
    )
    weight = torch.exp(log_density) * (step * (1.0 + torch.exp(-v)))  # dt = t (1 + e^(−v)) dv
    return [(weight * t.pow(s)).sum(-1) / math.gamma(s) for s in powers]


def delta(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """E[X^k] ≈ μ^k + ½ k(k−1) σ² μ^(k−2), the paper's second-order expansion (Lemmas C.1 and E.1)."""
    mean, variance = degree.mean(law), degree.variance(law)
    return [mean.pow(-s) + 0.5 * s * (s + 1.0) * variance * mean.pow(-s - 2.0) for s in powers]


def monte_carlo(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """Averages over sampled degrees; all powers share the draws, so that variances cannot be negative."""
    draws = (law.correction.samples, *degree.a.shape)
    stay, join = (degree.a.new_full(draws, rate) for rate in (1.0 - number(law.rates.p), number(law.rates.q)))
    kept = torch.binomial(degree.a.expand(draws), stay, law.generator)
    added = torch.binomial(degree.b.expand(draws), join, law.generator)
    x = degree.c + kept + added
    return [x.pow(-s).mean(0) for s in powers]


METHODS: dict[str, Callable[[RandomDegree, Law, tuple[float, ...]], list[Tensor]]] = {
    "exact": exact,
    "delta": delta,
    "monte-carlo": monte_carlo,
}


def degree_moments(
    graph: Graph, law: Law, c: float, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s] of every degree class, [U] per power, for X = c + Bin(deg − spent₀, 1−p) + Bin(nonneighbors − spent₁, q).

    ``spent`` says which neighbor or non-neighbor is already counted in c. Depends on degree and graph size only,
    hence one value for each `Graph.degree_classes`.
    """
    degrees, sizes, _ = graph.degree_classes
    # Isolated and fully connected nodes have no neighbor or non-neighbor to spend; their value is never used.
    a = (degrees - spent[0]).clamp(min=0).double()
    b = (sizes - 1 - degrees - spent[1]).clamp(min=0).double()
    values = METHODS[law.correction.moments](RandomDegree(c, a, b), law, powers)
    return [value.to(dtype) for value in values]


EDGE = (1, 0)
NONEDGE = (0, 1)
LOOP = (0, 0)
