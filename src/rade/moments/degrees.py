"""Moments of random degrees: E[X^(−s)] for X = c + Bin(a, 1−p) + Bin(b, q)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.memory import Memo
from rade.moments.inverse import Integral, expansion, inverse_moments, points
from rade.view.law import Law
from rade.view.rates import Rates, number

# Which neighbor or non-neighbor is already counted in c.
EDGE, NONEDGE, LOOP = (1, 0), (0, 1), (0, 0)
Given = tuple[float, tuple[int, int]]  # c, and how many neighbors and non-neighbors are counted in it
KEPT = 4  # rates at which integrals are known: a rate step is at those of the training step before it


@dataclass(frozen=True, eq=False)
class RandomDegree:
    """The law of X = c + Bin(a, 1−p) + Bin(b, q); c, a and b broadcast to one shape, in double precision."""

    c: Tensor
    a: Tensor
    b: Tensor
    memo: Memo = field(default_factory=lambda: Memo(KEPT), init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", torch.as_tensor(self.c, dtype=torch.double, device=self.a.device))

    def mean(self, law: Law) -> Tensor:
        """E[X]."""
        return self.c + self.a * (1.0 - law.rates.p) + self.b * law.rates.q

    def variance(self, law: Law) -> Tensor:
        """Var[X]."""
        p, q = law.rates.p, law.rates.q
        return self.a * p * (1.0 - p) + self.b * q * (1.0 - q)

    def integral(self, law: Law) -> Integral:
        """∫ E[e^(−tX)] … of a law, kept for its rates: their derivatives come from the same numbers."""
        p, q = number(law.rates.p), number(law.rates.q)
        return self.memo.once((p, q), lambda: Integral(self.a, self.b, self.c, p, q, *points(self._scale(law, p, q))))

    def _scale(self, law: Law, p: float, q: float) -> Tensor:
        """The mean, the largest of a column: rows then look at the same t, and share what depends on it alone."""
        mean = self.mean(law.at(Rates(p, q)))
        return mean if mean.dim() == 1 else mean.amax(0)

    def draws(self, law: Law, count: int) -> Tensor:
        """``count`` independent degrees, [count, U]."""
        shape = (count, *self.a.shape)
        stay, join = (self.a.new_full(shape, rate) for rate in (1.0 - number(law.rates.p), number(law.rates.q)))
        kept = torch.binomial(self.a.expand(shape), stay, law.generator)
        return self.c + kept + torch.binomial(self.b.expand(shape), join, law.generator)


def exact(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """By quadrature of the Laplace transform."""
    return inverse_moments(degree.integral(law), law.rates.p, law.rates.q, powers)


def delta(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """By the paper's expansion."""
    mean, variance = degree.mean(law), degree.variance(law)
    return [expansion(mean, variance, s) for s in powers]


def monte_carlo(degree: RandomDegree, law: Law, powers: tuple[float, ...]) -> list[Tensor]:
    """Averages over sampled degrees; all powers share the draws, so that variances cannot be negative."""
    if degree.a.dim() == 1:
        x = degree.draws(law, law.correction.samples)
        return [x.pow(-s).mean(0) for s in powers]
    # Rows one after the other, as if each had been asked for alone.
    rows = [RandomDegree(*row) for row in zip(degree.c, degree.a, degree.b)]
    found = [monte_carlo(row, law, powers) for row in rows]
    return [torch.stack(values) for values in zip(*found)]


METHODS: dict[str, Callable[[RandomDegree, Law, tuple[float, ...]], list[Tensor]]] = {
    "exact": exact,
    "delta": delta,
    "monte-carlo": monte_carlo,
}


def degree_tables(
    law: Law, given: tuple[Given, ...], powers: tuple[float, ...], dtype: torch.dtype
) -> list[tuple[Tensor, ...]]:
    """E[X^−s] of every degree class, [U], for each given c and power, all of them at once.

    X = c + Bin(deg − spent₀, 1−p) + Bin(nonneighbors − spent₁, q) depends on degree and graph size only, hence one
    value for each of `Graph.degree_classes`.
    """
    degree = law.graph.once(("random degree", given), lambda: _random_degree(law.graph, given))
    values = METHODS[law.correction.moments](degree, law, powers)
    return list(zip(*(value.to(dtype).unbind(0) for value in values)))


def _random_degree(graph: Graph, given: tuple[Given, ...]) -> RandomDegree:
    degrees, sizes, _ = graph.degree_classes
    c = degrees.new_tensor([c for c, _ in given], dtype=torch.double)
    spent = degrees.new_tensor([spent for _, spent in given])  # [G, 2]
    # Isolated and fully connected nodes have no neighbor or non-neighbor to spend; their value is never used.
    a = (degrees - spent[:, :1]).clamp(min=0).double()
    b = (sizes - 1 - degrees - spent[:, 1:]).clamp(min=0).double()
    return RandomDegree(c[:, None], a, b)


def degree_moments(
    law: Law, c: float, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s] of every degree class, [U] per power, for one c.

    With c = 0 the degree may vanish, and what is divided by it with it: E[X^−s; X > 0].
    """
    if c == 0.0:
        return _where_positive(law, spent, powers, dtype)
    return list(degree_tables(law, ((c, spent),), powers, dtype)[0])


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
