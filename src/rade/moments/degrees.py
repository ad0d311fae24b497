"""Moments of random degrees: E[X^(−s)] for X = c + Bin(a, 1−p) + Bin(b, q)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.moments.inverse import expansion, quadrature
from rade.view.law import Law
from rade.view.rates import number

# Which neighbor or non-neighbor is already counted in c.
EDGE, NONEDGE, LOOP = (1, 0), (0, 1), (0, 0)


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

    def log_laplace(self, law: Law, t: Tensor) -> Tensor:
        """log E[e^(−tX)] = a log(p + (1−p)e^(−t)) + b log(1−q + q e^(−t)) − ct, at t [U, nodes]."""
        # 1 − e^(−t) may round to 1, and 0·log 0 is no number: stop one ulp short, where the value is below e^(−36).
        gone = (-torch.expm1(-t)).clamp(max=1.0 - 2.0**-53)
        stay = 1.0 - law.rates.p
        kept, added = torch.log1p(-stay * gone), torch.log1p(-law.rates.q * gone)
        return self.a[:, None] * kept + self.b[:, None] * added - self.c * t

    def draws(self, law: Law, count: int) -> Tensor:
        """``count`` independent degrees, [count, U]."""
        shape = (count, *self.a.shape)
        stay, join = (self.a.new_full(shape, rate) for rate in (1.0 - number(law.rates.p), number(law.rates.q)))
        kept = torch.binomial(self.a.expand(shape), stay, law.generator)
        return self.c + kept + torch.binomial(self.b.expand(shape), join, law.generator)


def exact(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """By quadrature of the Laplace transform."""
    return quadrature(lambda t: degree.log_laplace(law, t), torch.as_tensor(degree.mean(law)), powers)


def delta(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """By the paper's expansion."""
    mean, variance = degree.mean(law), degree.variance(law)
    return [expansion(mean, variance, s) for s in powers]


def monte_carlo(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """Averages over sampled degrees; all powers share the draws, so that variances cannot be negative."""
    x = degree.draws(law, law.correction.samples)
    return [x.pow(-s).mean(0) for s in powers]


METHODS: dict[str, Callable[[RandomDegree, Law, tuple[float, ...]], list[Tensor]]] = {
    "exact": exact,
    "delta": delta,
    "monte-carlo": monte_carlo,
}


def degree_moments(
    law: Law, c: float, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s] of every degree class, [U] per power, for X = c + Bin(deg − spent₀, 1−p) + Bin(nonneighbors − spent₁, q).

    Depends on degree and graph size only, hence one value for each `Graph.degree_classes`. With c = 0 the degree may
    vanish, and what is divided by it with it: E[X^−s; X > 0].
    """
    if c == 0.0:
        return _where_positive(law, spent, powers, dtype)
    degrees, sizes, _ = law.graph.degree_classes
    # Isolated and fully connected nodes have no neighbor or non-neighbor to spend; their value is never used.
    a = (degrees - spent[0]).clamp(min=0).double()
    b = (sizes - 1 - degrees - spent[1]).clamp(min=0).double()
    values = METHODS[law.correction.moments](RandomDegree(c, a, b), law, powers)
    return [value.to(dtype) for value in values]


def _where_positive(law: Law, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype) -> list[Tensor]:
    """E[X^−s; X > 0] = E[X · X^(−s−1)] = Σ_k π_k E[X^(−s−1) | k is there]: over those whom X counts, one by one."""
    degrees, sizes, _ = law.graph.degree_classes
    higher = tuple(s + 1.0 for s in powers)
    neighbors, others = (degrees - spent[0]).double(), (sizes - 1 - degrees - spent[1]).double()
    beside_edge = degree_moments(law, 1.0, (spent[0] + 1, spent[1]), higher, torch.double)
    beside_nonedge = degree_moments(law, 1.0, (spent[0], spent[1] + 1), higher, torch.double)
    stay, join = neighbors.clamp(min=0) * (1.0 - law.rates.p), others.clamp(min=0) * law.rates.q
    return [(stay * one + join * other).to(dtype) for one, other in zip(beside_edge, beside_nonedge)]


def one_more(law: Law, c: float, spent: tuple[int, int], power: float, present: float | Tensor) -> Tensor:
    """Relative change of E[X^−s] by one more neighbor, [U]: (f₁ − f₀)/(π f₁ + (1−π) f₀), f_k = E[(X + k)^−s].

    ``present`` is the probability π of that neighbor, which ``spent`` takes out of X.
    """
    without, including = (degree_moments(law, c + k, spent, (power,), torch.double)[0] for k in (0, 1))
    return relative_change(without, including, present)


def relative_change(without: Tensor, including: Tensor, present: float | Tensor) -> Tensor:
    """(f₁ − f₀)/(π f₁ + (1−π) f₀)."""
    return (including - without) / (present * including + (1.0 - present) * without)
