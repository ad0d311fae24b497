"""Moments of random weighted degrees: E[X^(−s)] for X = c + Σ_k A'_ik e_ik + w_i Bin(b_i, q)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rade.graph.graph import Graph
from rade.moments.inverse import TO, expansion, points
from rade.view.law import Law
from rade.view.rates import number

BUDGET = 2**22  # numbers per temporary; more go in groups of quadrature nodes, recomputed in the backward pass
SILENT = -37.0  # e^−37 is lost beside 1 in double precision
FARTHEST = 700.0  # the last v with a finite exp(v)
NEVER = 1e-150  # least E[e^(−tAe)] told from 0; its square is still a number


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of a degree: rows are entries (i, j) of the graph [E], whose own edge is left out, or nodes [n].

    Attributes:
        certain: c > 0 of each row, in double precision.
        powers: the s of E[X^−s].
        by_entry: whether rows are entries.
        joined: how many additions are counted in c already.
        share: [n], how many of a node's other edges are left to chance; 1 if None. (a−1)/a leaves out one of a.
    """

    certain: Tensor
    powers: tuple[float, ...]
    by_entry: bool = False
    joined: float = 0.0
    share: Tensor | None = None


@dataclass(frozen=True, eq=False)
class WeightedDegrees:
    """The random part of all degrees of a graph; weights e > 0 [E] and w > 0 [n] in double precision."""

    graph: Graph
    weight: Tensor
    added: Tensor

    def over(self, given: Given, of_edges: Tensor, of_others: Tensor) -> Tensor:
        """Σ over the random edges of every row: of_edges [E, ...] of edges, of_others [n, ...] of each non-neighbor."""
        total, own = self.graph.pattern.row_sum(of_edges), of_edges
        others = _along((self.graph.nonneighbors - given.joined).clamp(min=0), of_others) * of_others
        if given.share is not None:
            share = _along(given.share, total)
            total, own = share * total, self.rows(given, share) * own if given.by_entry else own
        everybody = self.rows(given, total + others)
        return everybody - own if given.by_entry else everybody

    def rows(self, given: Given, values: Tensor) -> Tensor:
        """Values of nodes [n, ...] for every row."""
        return values.index_select(0, self.graph.pattern.target) if given.by_entry else values

    def scale(self, law: Law, wanted: Sequence[Given]) -> Tensor:
        """[n], not below the mean of any row of a node: what is far above its scale is integrated badly."""
        rates, target = law.rates, self.graph.pattern.target
        mean = (1.0 - rates.p) * self.graph.pattern.row_sum(self.weight)
        mean = mean + rates.q * self.graph.nonneighbors * self.added
        top = torch.zeros_like(mean.detach())
        for given in wanted:
            certain = given.certain.detach()
            if given.by_entry:
                top = top.scatter_reduce(0, target, certain, "amax")
            else:
                top = torch.maximum(top, certain)
        return (mean.detach() + top).clamp(min=NEVER)  # a node without edges and additions has no degree


def exact(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """By quadrature of log E[e^(−tX)] = Σ_k log(p + (1−p)e^(−t e_k)) + b log(1−q + q e^(−tw)) − ct.

    O(edges) for each node of the rule. Weights far apart let X be far below its mean, so the rule goes on until the
    transform of every row has vanished.
    """
    scale, to = degrees.scale(law, wanted), TO
    while to < FARTHEST and not _vanished(degrees, law, wanted, points(scale, to)[0][:, -1:]):
        to += 1.0
    t, steps = points(scale, to)
    size = max(1, BUDGET // max(degrees.weight.numel(), len(t), 1))
    parts = list(zip(torch.split(t, size, 1), torch.split(steps, size)))

    def part(t: Tensor, steps: Tensor) -> list[list[Tensor]]:
        return _integrals(degrees, law, wanted, t, steps)

    found = [part(*p) if len(parts) == 1 else checkpoint(part, *p, use_reentrant=False) for p in parts]
    return [[torch.stack(sums).sum(0) for sums in zip(*rows)] for rows in zip(*found)]


def _log_laplace(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given], t: Tensor) -> list[Tensor]:
    """At t [n, nodes], for every row, [rows, nodes]."""
    rates = law.rates
    y = t.index_select(0, degrees.graph.pattern.target) * degrees.weight[:, None]
    kept = (rates.p + (1.0 - rates.p) * torch.exp(-y)).clamp(min=NEVER).log()
    joined = log_mixture(rates.q, t * degrees.added[:, None])
    return [degrees.over(g, kept, joined) - g.certain[:, None] * degrees.rows(g, t) for g in wanted]


def log_mixture(rate: float | Tensor, y: Tensor) -> Tensor:
    """log(1 − π + π e^(−y)), to the last digit for small y, since it may count a million times, and for large y."""
    near, far = y.clamp(max=1.0), y.clamp(min=1.0)
    small = torch.log1p(rate * torch.expm1(-near))
    large = ((1.0 - rate) + rate * torch.exp(-far)).clamp(min=NEVER).log()
    return torch.where(y < 1.0, small, large)


@torch.no_grad()
def _vanished(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given], t: Tensor) -> bool:
    exponents = torch.cat(_log_laplace(degrees, law, wanted, t))
    return exponents.numel() == 0 or float(exponents.max()) <= SILENT


def _integrals(
    degrees: WeightedDegrees, law: Law, wanted: Sequence[Given], t: Tensor, steps: Tensor
) -> list[list[Tensor]]:
    exponents = _log_laplace(degrees, law, wanted, t)
    found = []
    for given, exponent in zip(wanted, exponents):
        density = torch.exp(exponent)
        nodes = [t.pow(s) * (steps / math.gamma(s)) for s in given.powers]
        found.append([(density * degrees.rows(given, weights)).sum(-1) for weights in nodes])
    return found


def delta(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """By the paper's expansion."""
    (p, q), e, w = (law.rates.p, law.rates.q), degrees.weight, degrees.added
    found = []
    for given in wanted:
        mean = given.certain + degrees.over(given, (1.0 - p) * e, q * w)
        variance = degrees.over(given, p * (1.0 - p) * e.square(), q * (1.0 - q) * w.square())
        found.append([expansion(mean, variance, s) for s in given.powers])
    return found


def monte_carlo(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """Averages over sampled degrees, which all powers share."""
    count, graph, generator = law.correction.samples, degrees.graph, law.generator
    drawn = torch.rand(graph.pattern.size, count, dtype=torch.double, generator=generator, device=graph.device)
    kept = (drawn >= number(law.rates.p)) * degrees.weight[:, None]
    found = []
    for given in wanted:
        others = (graph.nonneighbors - given.joined).clamp(min=0)[:, None].double().repeat(1, count)
        joined = torch.binomial(others, torch.full_like(others, number(law.rates.q)), generator)
        random = degrees.over(given, kept, torch.zeros_like(joined))
        x = given.certain[:, None] + random + degrees.rows(given, joined * degrees.added[:, None])
        found.append([x.pow(-s).mean(1) for s in given.powers])
    return found


METHODS: dict[str, Callable[[WeightedDegrees, Law, Sequence[Given]], list[list[Tensor]]]] = {
    "exact": exact,
    "delta": delta,
    "monte-carlo": monte_carlo,
}


def weighted_moments(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """E[X^−s] of every row, one list of powers for each of ``wanted``, as ``law.correction.moments`` says."""
    return METHODS[law.correction.moments](degrees, law, wanted)


def _along(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
