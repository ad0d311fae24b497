"""Moments of random weighted degrees: E[X^(−s)] for X = c + Σ_k A'_ik e_ik + w_i Bin(b_i, q)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rade.graph.constant import is_constant
from rade.graph.graph import Graph
from rade.graph.sparse import row_pointer
from rade.moments.inverse import TO, expansion, points
from rade.view.law import Law
from rade.view.rates import number

CACHE = 2**17  # numbers per temporary that stay near the processor: several times as fast as from memory
BUDGET = 2**20  # elsewhere, and of a single node with many edges, which go in groups of quadrature nodes
SILENT = math.exp(-37.0)  # lost beside 1 in double precision
FARTHEST = 700.0  # the last v with a finite exp(v)
NEVER = 1e-150  # least E[e^(−tAe)] told from 0; its square is still a number


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of a degree: rows are entries (i, j) of the graph [E], whose own edge is left out, or nodes [n].

    Attributes:
        certain: c ≥ 0 of each node, in double precision.
        powers: the s of E[X^−s].
        by_entry: whether rows are entries.
        own: whether the weight of a row's own edge is certain as well.
        joined: how many additions are counted in c already.
        share: [n], how many of a node's other edges are left to chance; 1 if None. (a−1)/a leaves out one of a.
    """

    certain: Tensor
    powers: tuple[float, ...]
    by_entry: bool = False
    own: bool = False
    joined: float = 0.0
    share: Tensor | None = None

    def part(self, nodes: slice) -> Given:
        """The same of some nodes."""
        return replace(self, certain=self.certain[nodes], share=None if self.share is None else self.share[nodes])


@dataclass(frozen=True, eq=False)
class WeightedDegrees:
    """The random part of the degrees of consecutive nodes; weights e > 0 [E] and w > 0 [n] in double precision."""

    weight: Tensor
    added: Tensor
    target: Tensor  # [E] of each edge among the nodes, ascending
    others: Tensor  # [n] numbers of non-neighbors

    @staticmethod
    def of(graph: Graph, weight: Tensor, added: Tensor) -> WeightedDegrees:
        """Those of all nodes of a graph."""
        return WeightedDegrees(weight, added, graph.pattern.target, graph.nonneighbors)

    def parts(self, size: int) -> Iterator[tuple[slice, WeightedDegrees]]:
        """Consecutive nodes with about ``size`` edges and nodes, and their degrees."""
        count = len(self.added)
        pointer = row_pointer(self.target, count)
        ends = pointer + torch.arange(count + 1, device=pointer.device)
        wanted = size * torch.arange(1, 1 + int(ends[-1]) // size, device=ends.device)
        cuts = sorted({0, *torch.searchsorted(ends, wanted).tolist(), count}) if count else [0, 0]
        for (low, high), (first, last) in zip(pairwise(cuts), pairwise(pointer[cuts].tolist())):
            nodes, entries = slice(low, high), slice(first, last)
            target = self.target[entries] - low
            yield nodes, WeightedDegrees(self.weight[entries], self.added[nodes], target, self.others[nodes])

    def row_sum(self, values: Tensor) -> Tensor:
        """Σ over the edges of each node, [E, ...] → [n, ...]."""
        return values.new_zeros(len(self.added), *values.shape[1:]).index_add(0, self.target, values)

    def over(self, given: Given, of_edges: Tensor, of_others: Tensor) -> Tensor:
        """Σ over the random edges of every row: of_edges [E, ...] of edges, of_others [n, ...] of each non-neighbor."""
        total, own = self.row_sum(of_edges), of_edges
        others = _along((self.others - given.joined).clamp(min=0), of_others) * of_others
        if given.share is not None:
            share = _along(given.share, total)
            total, own = share * total, self.rows(given, share) * own if given.by_entry else own
        everybody = self.rows(given, total + others)
        return everybody - own if given.by_entry else everybody

    def rows(self, given: Given, values: Tensor) -> Tensor:
        """Values of nodes [n, ...] for every row."""
        return values.index_select(0, self.target) if given.by_entry else values

    def known(self, given: Given) -> Tensor:
        """What is certain of every row."""
        known = self.rows(given, given.certain)
        return known + self.weight if given.own else known

    def scale(self, law: Law, wanted: Sequence[Given]) -> Tensor:
        """[n], not below the mean of any row of a node: what is far above its scale is integrated badly."""
        rates = law.rates
        mean = (1.0 - rates.p) * self.row_sum(self.weight) + rates.q * self.others * self.added
        top = torch.zeros_like(mean.detach())
        for given in wanted:
            known = self.known(given).detach()
            if given.by_entry:
                top = top.scatter_reduce(0, self.target, known, "amax")
            else:
                top = torch.maximum(top, known)
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
    p, q = law.rates.p, law.rates.q
    if is_constant(degrees.weight, degrees.added) and (isinstance(p, Tensor) or isinstance(q, Tensor)):
        both = partial(_values_and_slopes, number(p), number(q))
        rates = (torch.as_tensor(rate, dtype=torch.double, device=t.device) for rate in (p, q))
        build = partial(_summed, degrees, wanted, t, steps, both)
        found = list(_OfRates.apply(*rates, build))  # type: ignore[no-untyped-call]
    else:
        found = _summed(degrees, wanted, t, steps, partial(_values, p, q))
    rest = iter(found)
    return [[next(rest) for _ in given.powers] for given in wanted]


class _OfRates(torch.autograd.Function):
    """Moments as a function of the rates: ``build`` gives all of them, then their slopes in p, then those in q."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, build: Callable[[], list[Tensor]]) -> tuple[Tensor, ...]:
        found = build()
        count = len(found) // 3
        ctx.in_p, ctx.in_q = found[count : 2 * count], found[2 * count :]
        return tuple(found[:count])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        along = ([(g * slope).sum() for g, slope in zip(gradients, slopes)] for slopes in (ctx.in_p, ctx.in_q))
        in_p, in_q = (torch.stack(parts).sum() for parts in along)
        return in_p, in_q, None

    @staticmethod
    def jvp(ctx: Any, p_t: Tensor, q_t: Tensor, _: None) -> tuple[Tensor, ...]:
        return tuple(in_p * p_t + in_q * q_t for in_p, in_q in zip(ctx.in_p, ctx.in_q))


def _summed(
    degrees: WeightedDegrees, wanted: Sequence[Given], t: Tensor, steps: Tensor, integrate: Callable[..., list[Tensor]]
) -> list[Tensor]:
    """What ``integrate`` gives for every row, some nodes of the graph at a time; where weights learn, once more on the
    way back.
    """
    numbers, learns = CACHE if t.device.type == "cpu" else BUDGET, not is_constant(degrees.weight, degrees.added)
    found = []
    for nodes, part in degrees.parts(max(1, numbers // len(steps))):
        given, size = [one.part(nodes) for one in wanted], max(1, BUDGET // max(len(part.target), 1))
        groups = zip(torch.split(t[nodes], size, 1), torch.split(steps, size))
        run = partial(integrate, part, given)
        sums = [checkpoint(run, *group, use_reentrant=False) if learns else run(*group) for group in groups]
        found.append([torch.stack(parts).sum(0) for parts in zip(*sums)])
    return [torch.cat(parts) for parts in zip(*found)]


@dataclass(frozen=True, eq=False)
class Transform:
    """E[e^(−tX)] of every row at t [n, k], as a factor of its node times one of its entry."""

    degrees: WeightedDegrees
    t: Tensor
    gone: Tensor  # e^(−t e), [E, k]
    mixture: Tensor  # p + (1−p)e^(−t e), [E, k]
    log_mixture: Tensor
    total: Tensor  # Σ over the edges of a node, [n, k]
    log_joined: Tensor  # log(1−q + q e^(−tw)), [n, k]

    @staticmethod
    def at(p: float | Tensor, q: float | Tensor, degrees: WeightedDegrees, t: Tensor) -> Transform:
        """At rates p and q."""
        gone = torch.exp(-t.index_select(0, degrees.target) * degrees.weight[:, None])
        mixture = (p + (1.0 - p) * gone).clamp(min=NEVER)
        logs = mixture.log()
        return Transform(
            degrees, t, gone, mixture, logs, degrees.row_sum(logs), log_mixture(q, t * degrees.added[:, None])
        )

    def of_node(self, given: Given) -> Tensor:
        """[n, k]."""
        others = (self.degrees.others - given.joined).clamp(min=0)[:, None]
        total = self.total if given.share is None else given.share[:, None] * self.total
        return torch.exp(total + others * self.log_joined - given.certain[:, None] * self.t)

    def of_entry(self, given: Given) -> Tensor:
        """[E, k]: the own edge is no longer left to chance."""
        if given.share is None:
            return (self.gone if given.own else 1.0) / self.mixture
        left = torch.exp(-given.share[self.degrees.target, None] * self.log_mixture)
        return left * self.gone if given.own else left


def _values(
    p: float | Tensor, q: float | Tensor, degrees: WeightedDegrees, wanted: Sequence[Given], t: Tensor, steps: Tensor
) -> list[Tensor]:
    """E[X^−s] of all rows, one after the other."""
    transform, found = Transform.at(p, q, degrees, t), []
    for given in wanted:
        weights = transform.of_node(given)[:, None] * _powers(given, t, steps)
        sums = _over_rows(degrees, weights, transform.of_entry(given)) if given.by_entry else weights.sum(-1)
        found += list(sums.unbind(1))
    return found


def _values_and_slopes(
    p: float, q: float, degrees: WeightedDegrees, wanted: Sequence[Given], t: Tensor, steps: Tensor
) -> list[Tensor]:
    """The same, then their derivatives in p, then those in q."""
    transform = Transform.at(p, q, degrees, t)
    in_p = (1.0 - transform.gone) / transform.mixture
    in_q = torch.expm1(-t * degrees.added[:, None]) * torch.exp(-transform.log_joined)
    of_node = degrees.row_sum(in_p)[:, None]
    found: tuple[list[Tensor], ...] = ([], [], [])
    for given in wanted:
        weights, count = transform.of_node(given)[:, None] * _powers(given, t, steps), len(given.powers)
        share = 1.0 if given.share is None else given.share[:, None, None]
        others = (degrees.others - given.joined).clamp(min=0)[:, None, None]
        together = torch.cat([weights, share * of_node * weights, others * in_q[:, None] * weights], 1)
        if given.by_entry:
            factor = transform.of_entry(given)
            sums = list(torch.split(_over_rows(degrees, together, factor), count, 1))
            sums[1] = sums[1] - _over_rows(degrees, share * weights, factor * in_p)
        else:
            sums = list(torch.split(together.sum(-1), count, 1))
        for kind, one in zip(found, sums):
            kind += list(one.unbind(1))
    return [*found[0], *found[1], *found[2]]


def _powers(given: Given, t: Tensor, steps: Tensor) -> Tensor:
    """t^s dt/t / Γ(s), [n, powers, k]."""
    return torch.stack([t.pow(s) * (steps / math.gamma(s)) for s in given.powers], 1)


def _over_rows(degrees: WeightedDegrees, of_node: Tensor, of_entry: Tensor) -> Tensor:
    """Σ_k of products, [n, m, k] and [E, k] → [E, m]."""
    return torch.bmm(of_node.index_select(0, degrees.target), of_entry[:, :, None]).squeeze(2)


def log_mixture(rate: float | Tensor, y: Tensor) -> Tensor:
    """log(1 − π + π e^(−y)), to the last digit for small y, since it may count a million times, and for large y."""
    near, far = y.clamp(max=1.0), y.clamp(min=1.0)
    small = torch.log1p(rate * torch.expm1(-near))
    large = ((1.0 - rate) + rate * torch.exp(-far)).clamp(min=NEVER).log()
    return torch.where(y < 1.0, small, large)


@torch.no_grad()
def _vanished(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given], t: Tensor) -> bool:
    transform = Transform.at(number(law.rates.p), number(law.rates.q), degrees, t)
    found = [
        degrees.rows(given, transform.of_node(given)) * (transform.of_entry(given) if given.by_entry else 1.0)
        for given in wanted
    ]
    return all(one.numel() == 0 or float(one.max()) <= SILENT for one in found)


def delta(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """By the paper's expansion."""
    (p, q), e, w = (law.rates.p, law.rates.q), degrees.weight, degrees.added
    found = []
    for given in wanted:
        mean = degrees.known(given) + degrees.over(given, (1.0 - p) * e, q * w)
        variance = degrees.over(given, p * (1.0 - p) * e.square(), q * (1.0 - q) * w.square())
        found.append([expansion(mean, variance, s) for s in given.powers])
    return found


def monte_carlo(degrees: WeightedDegrees, law: Law, wanted: Sequence[Given]) -> list[list[Tensor]]:
    """Averages over sampled degrees, which all powers share."""
    count, generator, device = law.correction.samples, law.generator, degrees.weight.device
    drawn = torch.rand(len(degrees.weight), count, dtype=torch.double, generator=generator, device=device)
    kept = (drawn >= number(law.rates.p)) * degrees.weight[:, None]
    found = []
    for given in wanted:
        others = (degrees.others - given.joined).clamp(min=0)[:, None].double().repeat(1, count)
        joined = torch.binomial(others, torch.full_like(others, number(law.rates.q)), generator)
        random = degrees.over(given, kept, torch.zeros_like(joined))
        x = degrees.known(given)[:, None] + random + degrees.rows(given, joined * degrees.added[:, None])
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
