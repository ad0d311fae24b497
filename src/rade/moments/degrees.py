"""Moments of random degrees: E[X^(−s)] for X = c + Bin(a, 1−p) + Bin(b, q), by the Laplace transform of X."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rade.distribution import Distribution
from rade.graph.graph import HALF

# Which neighbor or non-neighbor is already counted in c.
EDGE, NONEDGE, LOOP = (1, 0), (0, 1), (0, 0)
Counted = tuple[float, tuple[int, int]]  # c, and how many neighbors and non-neighbors are counted in it
NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/theory.md)
STEP = (TO - FROM) / (NODES - 1)
MOST = 2**14  # degree classes whose moments are kept from batch to batch
KEPT = 4  # rates at which integrals are known: a rate step is at those of the training step before it


def points(scale: Tensor, to: float = TO) -> tuple[Tensor, Tensor]:
    """Where the rule looks: t = exp(v − exp(−v))/scale, [..., nodes], and dt/t at each, [nodes].

    The substitution makes the trapezoid rule converge doubly exponentially; ``scale`` is held fixed in derivatives.
    """
    count = math.ceil(round((to - FROM) / STEP, 6))
    v = torch.linspace(FROM, FROM + count * STEP, count + 1, dtype=torch.double, device=scale.device)
    return torch.exp(v - torch.exp(-v)) / scale.detach()[..., None], STEP * (1.0 + torch.exp(-v))


def expansion(mean: Tensor, variance: Tensor, power: float) -> Tensor:
    """E[X^−s] ≈ μ^−s + ½ s(s+1) σ² μ^(−s−2), the paper's second-order expansion (Lemmas C.1, C.2, E.1, E.2)."""
    inverse = mean.reciprocal()
    return inverse.pow(power) * (1.0 + 0.5 * power * (power + 1.0) * variance * inverse.square())


class Integral:
    """E[X^−s] = 1/Γ(s) ∫₀^∞ t^(s−1) E[e^(−tX)] dt at some rates, by the trapezoid rule in v.

    log E[e^(−tX)] = a log(p + (1−p)e^(−t)) + b log(1−q + q e^(−t)) − ct. What was found is kept, and serves values and
    derivatives alike. Rows of a, b, c [G, U] look at the same t, and share what depends on it alone.
    """

    def __init__(self, a: Tensor, b: Tensor, c: Tensor, p: float | Tensor, q: float | Tensor) -> None:
        self.a, self.b, self.c, self.p, self.q = a, b, c, p, q
        self.t, self.steps = points((c + a * (1.0 - p) + b * q).amax(0))
        self._values: dict[tuple[float, ...], list[Tensor]] = {}

    @cached_property
    def gone(self) -> Tensor:
        """1 − e^(−t)."""
        # It may round to 1, and 0·log 0 is no number: stop one ulp short, where the value is below e^(−36).
        return (-torch.expm1(-self.t)).clamp(max=1.0 - 2.0**-53)

    def weight(self, p: float | Tensor, q: float | Tensor) -> Tensor:
        """E[e^(−tX)] dt/t."""
        kept, added = torch.log1p((p - 1.0) * self.gone), torch.log1p(-q * self.gone)
        exponent = self.a[..., None] * kept + self.b[..., None] * added - self.c[..., None] * self.t
        return exponent.exp() * self.steps

    @cached_property
    def here(self) -> Tensor:
        """The weight at the integral's own rates."""
        return self.weight(self.p, self.q)

    def values(self, powers: tuple[float, ...]) -> list[Tensor]:
        """E[X^−s] for each power."""
        if powers not in self._values:
            self._values[powers] = [(self.here * self._power(s)).sum(-1) for s in powers]
        return self._values[powers]

    def slopes(self, powers: tuple[float, ...], p: Tensor, q: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The derivatives of each in p and q; differentiable again where the rates are."""
        again = torch.is_grad_enabled() and (p.requires_grad or q.requires_grad)
        weight, gone = self.weight(p, q) if again else self.here, self.gone
        in_p, in_q = weight * (gone / (1.0 + (p - 1.0) * gone)), weight * (gone / (1.0 - q * gone))
        found = []
        for s in powers:
            scaled = self._power(s)
            found.append((self.a * (in_p * scaled).sum(-1), -self.b * (in_q * scaled).sum(-1)))
        return found

    def _power(self, s: float) -> Tensor:
        return self.t.pow(s) / math.gamma(s)


class _InverseMoments(torch.autograd.Function):
    """The values of an integral; their derivatives, to any order, from its slopes."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, integral: Integral, powers: tuple[float, ...]) -> tuple[Tensor, ...]:
        ctx.integral, ctx.powers = integral, powers
        ctx.save_for_backward(p, q)
        return tuple(map(torch.clone, integral.values(powers)))  # what is kept has no derivatives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        p, q = ctx.saved_tensors
        in_p, in_q = torch.zeros_like(p), torch.zeros_like(q)
        for (by_p, by_q), gradient in zip(ctx.integral.slopes(ctx.powers, p, q), gradients):
            in_p, in_q = in_p + (by_p * gradient).sum(), in_q + (by_q * gradient).sum()
        return in_p, in_q, None, None


@dataclass(frozen=True, eq=False)
class RandomDegree:
    """X = c + Bin(a, 1−p) + Bin(b, q) for the degree classes of a graph, [G, U] in double precision."""

    c: Tensor
    a: Tensor
    b: Tensor

    @staticmethod
    def of(degrees: Tensor, sizes: Tensor, counted: tuple[Counted, ...]) -> RandomDegree:
        """A row for each c; X depends on degree and graph size only, hence a column for each class of these, [U]."""
        c = degrees.new_tensor([c for c, _ in counted], dtype=torch.double)
        spent = degrees.new_tensor([spent for _, spent in counted])  # [G, 2]
        # Isolated and fully connected nodes have no neighbor or non-neighbor to spend; their value is never used.
        a = (degrees - spent[:, :1]).clamp(min=0).double()
        b = (sizes - 1 - degrees - spent[:, 1:]).clamp(min=0).double()
        return RandomDegree(c[:, None], a, b)

    @cached_property
    def _integrals(self) -> dict[tuple[float, float], Integral]:
        return {}

    def integral(self, p: float, q: float) -> Integral:
        """∫ E[e^(−tX)] … at some rates; those of the latest ones are kept."""
        known = self._integrals
        if (p, q) not in known:
            known[p, q] = Integral(self.a, self.b, self.c, p, q)
            if len(known) > KEPT:
                del known[next(iter(known))]
        return known[p, q]

    def exact(self, distribution: Distribution, powers: tuple[float, ...]) -> list[Tensor]:
        """E[X^−s] for each power by quadrature; differentiable in the rates."""
        rates = distribution.rates
        integral = self.integral(*rates.numbers)
        if not isinstance(rates.p, Tensor) and not isinstance(rates.q, Tensor):
            return integral.values(powers)
        p = torch.as_tensor(rates.p, dtype=torch.double, device=self.a.device)
        q = torch.as_tensor(rates.q, dtype=torch.double, device=self.a.device)
        return list(_InverseMoments.apply(p, q, integral, powers))  # type: ignore[no-untyped-call]

    def delta(self, distribution: Distribution, powers: tuple[float, ...]) -> list[Tensor]:
        """By the paper's expansion."""
        p, q = distribution.rates.p, distribution.rates.q
        mean = self.c + self.a * (1.0 - p) + self.b * q
        variance = self.a * p * (1.0 - p) + self.b * q * (1.0 - q)
        return [expansion(mean, variance, s) for s in powers]


def degree_tables(
    distribution: Distribution, counted: tuple[Counted, ...], powers: tuple[float, ...], dtype: torch.dtype
) -> list[tuple[Tensor, ...]]:
    """E[X^−s] of every degree class, [U], for each c and power, all of them at once."""
    graph, rates, moments = distribution.graph, distribution.rates, distribution.correction.moments
    degrees, sizes, _ = graph.degree_classes

    def found(degree: RandomDegree) -> Tensor:
        method = degree.exact if moments == "exact" else degree.delta
        return torch.stack(method(distribution, powers), 1).to(dtype)  # [G, powers, U]

    keys = (degrees << HALF) + sizes  # ascending, as the classes are
    shared = graph.num_graphs > 1 and not isinstance(rates.p, Tensor) and not isinstance(rates.q, Tensor)
    name = (counted, powers, dtype, moments, graph.device)
    known: _Known | None = rates.cache.get(name) if shared else None
    if known is not None:
        tables = known.at(keys, lambda new: found(RandomDegree.of(degrees[new], sizes[new], counted)))
        return list(map(torch.unbind, tables))
    if counted not in graph.cache:
        graph.cache[counted] = RandomDegree.of(degrees, sizes, counted)
    tables = found(graph.cache[counted])
    if shared:
        rates.cache[name] = _Known(keys, tables)
    return list(map(torch.unbind, tables))


class _Known:
    """Moments of the degree classes met so far at constant rates: those of small graphs come again in every batch."""

    def __init__(self, keys: Tensor, tables: Tensor) -> None:
        self.keys, self.tables = keys, tables  # [U] ascending, [..., U]

    def at(self, keys: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """The tables of these classes; ``compute`` says those of the classes [k] among them that are new."""
        place = torch.searchsorted(self.keys, keys).clamp_(max=self.keys.numel() - 1)
        new = self.keys.index_select(0, place) != keys
        if not bool(new.any()):
            return self.tables.index_select(-1, place)
        new = new.nonzero().squeeze(1)
        if self.keys.numel() > MOST:
            self.keys, self.tables = self.keys[:1], self.tables[..., :1]
            return self.at(keys, compute)
        joined, order = torch.sort(torch.cat([self.keys, keys[new]]))
        self.tables = torch.cat([self.tables, compute(new)], -1).index_select(-1, order)
        self.keys = joined
        return self.tables.index_select(-1, torch.searchsorted(joined, keys))


def degree_moments(
    distribution: Distribution, c: float, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s] of every degree class, [U] per power, for one c.

    With c = 0 the degree may vanish, and what is divided by it with it: E[X^−s; X > 0].
    """
    if c == 0.0:
        return _where_positive(distribution, spent, powers, dtype)
    return list(degree_tables(distribution, ((c, spent),), powers, dtype)[0])


def _where_positive(
    distribution: Distribution, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s; X > 0] = E[X · X^(−s−1)] = Σ_k π_k E[X^(−s−1) | k is there]: over those whom X counts, one by one."""
    degrees, sizes, _ = distribution.graph.degree_classes
    rates, higher = distribution.rates, tuple(s + 1.0 for s in powers)
    neighbors, others = (degrees - spent[0]).double(), (sizes - 1 - degrees - spent[1]).double()
    beside_edge = degree_moments(distribution, 1.0, (spent[0] + 1, spent[1]), higher, torch.double)
    beside_nonedge = degree_moments(distribution, 1.0, (spent[0], spent[1] + 1), higher, torch.double)
    stay, join = neighbors.clamp(min=0) * (1.0 - rates.p), others.clamp(min=0) * rates.q
    return [(stay * one + join * other).to(dtype) for one, other in zip(beside_edge, beside_nonedge)]


def one_more(
    distribution: Distribution, c: float, spent: tuple[int, int], power: float, present: float | Tensor
) -> Tensor:
    """Relative change of E[X^−s] by one more neighbor, [U]: (f₁ − f₀)/(π f₁ + (1−π) f₀), f_k = E[(X + k)^−s].

    ``present`` is the probability π of that neighbor, which ``spent`` takes out of X.
    """
    without, including = (degree_moments(distribution, c + k, spent, (power,), torch.double)[0] for k in (0, 1))
    return relative_change(without, including, present)


def relative_change(without: Tensor, including: Tensor, present: float | Tensor) -> Tensor:
    """(f₁ − f₀)/(π f₁ + (1−π) f₀)."""
    return (including - without) / (present * including + (1.0 - present) * without)
