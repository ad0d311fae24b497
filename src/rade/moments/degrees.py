"""Moments of random degrees: E[X^(−s)] for X = c + Bin(a, 1−p) + Bin(b, q), by the Laplace transform of X."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rade.distribution import Distribution, MomentsName
from rade.graph.graph import HALF, Graph

# Which neighbor or non-neighbor is already counted in c.
EDGE, NONEDGE, LOOP = (1, 0), (0, 1), (0, 0)
Counted = tuple[float, tuple[int, int]]  # c, and how many neighbors and non-neighbors are counted in it
NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/theory.md)
STEP = (TO - FROM) / (NODES - 1)


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


def random_degree(
    c: Tensor, a: Tensor, b: Tensor, how: MomentsName, p: float | Tensor, q: float | Tensor, powers: tuple[float, ...]
) -> list[Tensor]:
    """E[X^−s] of X = c + Bin(a, 1−p) + Bin(b, q) for each power; differentiable in the rates.

    By the paper's expansion, or exactly as 1/Γ(s) ∫₀^∞ t^(s−1) E[e^(−tX)] dt by the trapezoid rule in v, where
    log E[e^(−tX)] = a log(p + (1−p)e^(−t)) + b log(1−q + q e^(−t)) − ct.

    Args:
        c, a, b: rows of numbers counted, [G, 1], and classes of nodes, [G, U]; all double.
        how: exactly, or by the expansion.
        p, q: the rates.
        powers: the s.
    """
    p = torch.as_tensor(p, dtype=torch.double, device=a.device)
    q = torch.as_tensor(q, dtype=torch.double, device=a.device)
    mean = c + a * (1.0 - p) + b * q
    if how == "delta":
        variance = a * p * (1.0 - p) + b * q * (1.0 - q)
        return [expansion(mean, variance, s) for s in powers]
    t, steps = points(mean.amax(0))  # the same for all rows, which share what depends on it alone
    # It may round to 1, and 0·log 0 is no number: stop one ulp short, where the value is below e^(−36).
    gone = (-torch.expm1(-t)).clamp(max=1.0 - 2.0**-53)
    kept, added = torch.log1p((p - 1.0) * gone), torch.log1p(-q * gone)
    density = (a[..., None] * kept + b[..., None] * added - c[..., None] * t).exp() * steps
    return [(density * (t.pow(s) / math.gamma(s))).sum(-1) for s in powers]


def degree_tables(
    distribution: Distribution, counted: tuple[Counted, ...], powers: tuple[float, ...], dtype: torch.dtype
) -> list[tuple[Tensor, ...]]:
    """E[X^−s] of every node, [n], for each c and power, all of them at once: nodes of a degree class share theirs."""
    graph, rates, how = distribution.graph, distribution.rates, distribution.correction.moments

    def found(degrees: Tensor, sizes: Tensor) -> Tensor:
        c = degrees.new_tensor([c for c, _ in counted], dtype=torch.double)[:, None]
        spent = degrees.new_tensor([spent for _, spent in counted])  # [G, 2]
        # Isolated and fully connected nodes have no neighbor or non-neighbor to spend; their value is never used.
        a = (degrees - spent[:, :1]).clamp(min=0).double()
        b = (sizes - 1 - degrees - spent[:, 1:]).clamp(min=0).double()
        return torch.stack(random_degree(c, a, b, how, rates.p, rates.q, powers), 1).to(dtype)  # [G, powers, U]

    if graph.num_graphs == 1 or isinstance(rates.p, Tensor) or isinstance(rates.q, Tensor):
        degrees, sizes, of_node = graph.degree_classes
        tables = found(degrees, sizes).index_select(-1, of_node)
    else:
        name = (counted, powers, dtype, how, graph.device)
        tables = rates.cache.setdefault(name, _Known()).of(graph, found)
    return list(map(torch.unbind, tables))


class _Known:
    """Moments of the degree classes met so far at constant rates: those of small graphs come again in every batch."""

    classes: Tensor  # [U] ascending
    tables: Tensor  # [..., U]

    def of(self, graph: Graph, compute: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The tables of all nodes, [..., n]; ``compute`` says those of degrees and sizes."""
        wanted, known = graph.degree_class, vars(self).get("classes", graph.degree_class[:0])
        place = torch.searchsorted(known, wanted)
        if not known.numel() or not torch.equal(known.take(place.clamp(max=known.numel() - 1)), wanted):
            self.classes = torch.unique(torch.cat([known, wanted]))
            self.tables = compute(self.classes >> HALF, self.classes & (2**HALF - 1))
            place = torch.searchsorted(self.classes, wanted)
        return self.tables.index_select(-1, place)


def degree_moments(
    distribution: Distribution, c: float, spent: tuple[int, int], powers: tuple[float, ...], dtype: torch.dtype
) -> list[Tensor]:
    """E[X^−s] of every node, [n] per power, for one c.

    With c = 0 the degree may vanish, and what is divided by it with it: E[X^−s; X > 0] = E[X · X^(−s−1)]
    = Σ_k π_k E[X^(−s−1) | k is there], over those whom X counts, one by one.
    """
    if c != 0.0:
        return list(degree_tables(distribution, ((c, spent),), powers, dtype)[0])
    graph, rates, higher = distribution.graph, distribution.rates, tuple(s + 1.0 for s in powers)
    counted = ((1.0, (spent[0] + 1, spent[1])), (1.0, (spent[0], spent[1] + 1)))
    stay = (graph.degree - spent[0]).double().clamp(min=0) * (1.0 - rates.p)
    join = (graph.nonneighbors - spent[1]).double().clamp(min=0) * rates.q
    beside = zip(*degree_tables(distribution, counted, higher, torch.double))
    return [(stay * edge + join * nonedge).to(dtype) for edge, nonedge in beside]
