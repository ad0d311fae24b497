"""Moments of random weighted degrees: E[X^(−s)] for X = c + Σ_k A'_ik e_ik + w_i Bin(b_i, q)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rade.distribution import Distribution, Rates, number
from rade.graph.graph import Graph
from rade.moments.degrees import KEPT, TO, expansion, points

CACHED = 2**17  # numbers per temporary of constant weights, which are gone through at the speed of the cache
BUDGET = 2**22  # the same where derivatives are recorded; more are computed again in the backward pass
SILENT = -37.0  # e^−37 is lost beside 1 in double precision
FARTHEST = 700.0  # the last v with a finite exp(v)
NEVER = 1e-150  # least E[e^(−tAe)] told from 0; its square is still a number


@dataclass(frozen=True, eq=False)
class Condition:
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
    """The random part of the degrees of some nodes; weights e > 0 [E] and w > 0 [n] in double precision."""

    target: Tensor  # [E] row of each entry, ascending
    weight: Tensor
    added: Tensor
    nonneighbors: Tensor  # [n]

    @staticmethod
    def of(graph: Graph, weight: Tensor, added: Tensor) -> WeightedDegrees:
        """Of all nodes of a graph."""
        return WeightedDegrees(graph.pattern.target, weight, added, graph.nonneighbors.double())

    @property
    def constant(self) -> bool:
        """Whether the weights have no derivative."""
        return not (self.weight.requires_grad or self.added.requires_grad)

    def over(self, condition: Condition, of_edges: Tensor, of_others: Tensor) -> Tensor:
        """Σ over the random edges of every row: of_edges [E, ...] of edges, of_others [n, ...] of each non-neighbor."""
        total, own = self.row_sum(of_edges), of_edges
        others = _along(self.others(condition), of_others) * of_others
        if condition.share is not None:
            share = _along(condition.share, total)
            total, own = share * total, self.rows(condition, share) * own if condition.by_entry else own
        everybody = self.rows(condition, total + others)
        return everybody - own if condition.by_entry else everybody

    def others(self, condition: Condition) -> Tensor:
        """How many non-neighbors of each node are left to chance, [n]."""
        return (self.nonneighbors - condition.joined).clamp(min=0)

    def row_sum(self, values: Tensor) -> Tensor:
        """[E, ...] → [n, ...]."""
        return values.new_zeros(len(self.added), *values.shape[1:]).index_add(0, self.target, values)

    def rows(self, condition: Condition, values: Tensor) -> Tensor:
        """Values of nodes [n, ...] for every row."""
        return values.index_select(0, self.target) if condition.by_entry else values

    def scale(self, p: float, q: float, wanted: Sequence[Condition]) -> Tensor:
        """[n], not below the mean of any row of a node: what is far above its scale is integrated badly."""
        mean = (1.0 - p) * self.row_sum(self.weight.detach()) + q * self.nonneighbors * self.added.detach()
        top = torch.zeros_like(mean)
        for condition in wanted:
            certain = condition.certain.detach()
            if condition.by_entry:
                top = top.scatter_reduce(0, self.target, certain, "amax")
            else:
                top = torch.maximum(top, certain)
        return (mean + top).clamp(min=NEVER)  # a node without edges and additions has no degree

    def block(
        self, wanted: Sequence[Condition], nodes: slice, entries: slice
    ) -> tuple[WeightedDegrees, list[Condition]]:
        """The degrees of consecutive nodes, and the rows of theirs."""
        found = []
        for c in wanted:
            share = None if c.share is None else c.share[nodes]
            certain = c.certain[entries if c.by_entry else nodes]
            found.append(Condition(certain, c.powers, c.by_entry, c.joined, share))
        target = self.target[entries] - nodes.start
        block = WeightedDegrees(target, self.weight[entries], self.added[nodes], self.nonneighbors[nodes])
        return block, found

    def blocks(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Consecutive nodes and their entries, at most so many entries or about as many as the next node has."""
        counts = torch.bincount(self.target, minlength=len(self.added))
        load = (counts + 1).cumsum(0)
        turns = (torch.div(load, most, rounding_mode="floor").diff() > 0).nonzero().squeeze(1) + 1
        ends, upto = [*turns.tolist(), len(self.added)], torch.cat([counts[:1] * 0, counts.cumsum(0)])
        for begin, end in zip([0, *ends], ends):
            yield slice(begin, end), slice(int(upto[begin]), int(upto[end]))


Found = list[list[Tensor]]  # E[X^−s] of every row, for each condition and each of its powers


class Integral:
    """E[X^−s] = 1/Γ(s) ∫ t^(s−1) E[e^(−tX)] dt, as in `degrees`, over independent edges of different weight.

    The smallest X of a hub may be far below its mean, so the rule goes on until the transform of every row has
    vanished. Nodes of the rule are t = x/scale_i with the same x for all i.
    """

    def __init__(self, degrees: WeightedDegrees, rates: Rates, wanted: Sequence[Condition]) -> None:
        self.degrees, self.wanted, to, (p, q) = degrees, wanted, TO, (number(rates.p), number(rates.q))
        self.scale, one = degrees.scale(p, q, wanted), degrees.added.new_ones(1)
        while to < FARTHEST and not self._vanished(p, q, points(one, to)[0][0, -1]):
            to += 1.0
        (self.x,), self.steps = points(one, to)

    def values(self, rates: Rates) -> Found:
        """By autograd: differentiable in the rates and the weights, to any order."""
        blocks = list(self.degrees.blocks(max(1, BUDGET // len(self.x))))

        def part(nodes: slice, entries: slice, p: Any, q: Any) -> Found:
            block, wanted, t = self._block(nodes, entries)
            exponents, _ = _log_laplace(block, p, q, wanted, t)
            return [
                self._sums(block, condition, exponent.exp(), nodes) for condition, exponent in zip(wanted, exponents)
            ]

        each = [
            part(*block, rates.p, rates.q)
            if len(blocks) == 1
            else cast(Found, checkpoint(part, *block, rates.p, rates.q, use_reentrant=False))
            for block in blocks
        ]
        return _joined(each)

    @torch.no_grad()
    def with_slopes(self, p: float, q: float) -> list[Found]:
        """Values, and their derivatives in p and in q, from the same exponentials; weights are constants here."""
        each: list[tuple[Found, Found, Found]] = []
        for nodes, entries in self.degrees.blocks(max(1, CACHED // len(self.x))):
            block, wanted, t = self._block(nodes, entries)
            exponents, (in_p, in_q) = _log_laplace(block, p, q, wanted, t, slopes=True)
            found: tuple[Found, Found, Found] = ([], [], [])
            for condition, exponent in zip(wanted, exponents):
                density = exponent.exp_()
                by_edges = block.over(condition, in_p, t.new_zeros(len(t), 1))
                by_others = block.rows(condition, block.others(condition)[:, None] * in_q)
                for kind, weight in zip(found, (density, by_edges.mul_(density), by_others * density)):
                    kind.append(self._sums(block, condition, weight, nodes))
            each.append(found)
        return [_joined(kind) for kind in zip(*each)]

    def _block(self, nodes: slice, entries: slice) -> tuple[WeightedDegrees, list[Condition], Tensor]:
        block, wanted = self.degrees.block(self.wanted, nodes, entries)
        return block, wanted, self.x / self.scale[nodes, None]

    def _sums(self, block: WeightedDegrees, condition: Condition, density: Tensor, nodes: slice) -> list[Tensor]:
        """Σ density · t^s dt/t / Γ(s) for each power."""
        powers = [self.x.pow(s) * (self.steps / math.gamma(s)) for s in condition.powers]
        sums = (density @ torch.stack(powers, 1)).unbind(1)
        scale = block.rows(condition, self.scale[nodes])
        return [value * scale.pow(-s) for value, s in zip(sums, condition.powers)]

    @torch.no_grad()
    def _vanished(self, p: float, q: float, x: Tensor) -> bool:
        exponents, _ = _log_laplace(self.degrees, p, q, self.wanted, x / self.scale[:, None])
        rows = torch.cat(exponents)
        return rows.numel() == 0 or float(rows.max()) <= SILENT


class _InverseMoments(torch.autograd.Function):
    """Moments with known slopes in p and q; slopes of slopes by autograd."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, integral: Integral, known: list[Found]) -> tuple[Tensor, ...]:
        ctx.integral, ctx.known = integral, known
        ctx.save_for_backward(p, q)
        return tuple(value.clone() for row in known[0] for value in row)  # what is kept has no derivatives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        p, q = ctx.saved_tensors
        if torch.is_grad_enabled() and (p.requires_grad or q.requires_grad):
            values = [value for row in ctx.integral.values(Rates(p, q)) for value in row]
            in_p, in_q = torch.autograd.grad(values, (p, q), gradients, create_graph=True)
            return in_p, in_q, None, None
        in_p, in_q = (
            torch.stack([(slope * g).sum() for slope, g in zip((s for row in found for s in row), gradients)]).sum()
            for found in ctx.known[1:]
        )
        return in_p, in_q, None, None


def _log_laplace(
    degrees: WeightedDegrees, p: Any, q: Any, wanted: Sequence[Condition], t: Tensor, slopes: bool = False
) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    """log E[e^(−tX)] at t [n, nodes] for every row, [rows, nodes]; and what one edge, one other adds to it.

    With ``slopes`` the latter are derivatives, in p of each edge's part and in q of each other's.
    """
    u = torch.exp(t.index_select(0, degrees.target) * -degrees.weight[:, None])
    kept, y = (p + (1.0 - p) * u).clamp(min=NEVER), t * degrees.added[:, None]
    log, joined = kept.log(), log_mixture(q, y)
    exponents = [degrees.over(c, log, joined) - c.certain[:, None] * degrees.rows(c, t) for c in wanted]
    if not slopes:
        return exponents, (log, joined)
    mixture = ((1.0 - q) + q * torch.exp(-y)).clamp(min=NEVER)
    return exponents, ((1.0 - u) / kept, torch.expm1(-y) / mixture)


def log_mixture(rate: float | Tensor, y: Tensor) -> Tensor:
    """log(1 − π + π e^(−y)), to the last digit for small y, since it may count a million times, and for large y."""
    near, far = y.clamp(max=1.0), y.clamp(min=1.0)
    small = torch.log1p(rate * torch.expm1(-near))
    large = ((1.0 - rate) + rate * torch.exp(-far)).clamp(min=NEVER).log()
    return torch.where(y < 1.0, small, large)


class DegreeMoments:
    """E[X^−s] of every row under some conditions, one list of powers for each; those of the latest rates are kept."""

    def __init__(self, degrees: WeightedDegrees, wanted: Sequence[Condition]) -> None:
        self.degrees, self.wanted = degrees, wanted
        self._known: dict[tuple[float, float], tuple[Integral, list[Found]]] = {}

    def under(self, distribution: Distribution) -> Found:
        """As ``distribution.correction.moments`` says; differentiable in the rates and the weights."""
        rates = distribution.rates
        if distribution.correction.moments == "delta":
            return self._expanded(rates)
        if not self.degrees.constant:
            return Integral(self.degrees, rates, self.wanted).values(rates)
        integral, known = self._at(number(rates.p), number(rates.q))
        if not isinstance(rates.p, Tensor) and not isinstance(rates.q, Tensor):
            return known[0]
        p, q = (torch.as_tensor(rate).to(integral.x) for rate in (rates.p, rates.q))
        flat = iter(_InverseMoments.apply(p, q, integral, known))  # type: ignore[no-untyped-call]
        return [[next(flat) for _ in condition.powers] for condition in self.wanted]

    def _at(self, p: float, q: float) -> tuple[Integral, list[Found]]:
        if (p, q) not in self._known:
            integral = Integral(self.degrees, Rates(p, q), self.wanted)
            self._known[p, q] = integral, integral.with_slopes(p, q)
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        return self._known[p, q]

    def _expanded(self, rates: Rates) -> Found:
        """By the paper's expansion."""
        (p, q), e, w = (rates.p, rates.q), self.degrees.weight, self.degrees.added
        found = []
        for condition in self.wanted:
            mean = condition.certain + self.degrees.over(condition, (1.0 - p) * e, q * w)
            variance = self.degrees.over(condition, p * (1.0 - p) * e.square(), q * (1.0 - q) * w.square())
            found.append([expansion(mean, variance, s) for s in condition.powers])
        return found


def _joined(blocks: Sequence[Found]) -> Found:
    """The rows of all blocks."""
    return [[torch.cat(values) for values in zip(*rows)] for rows in zip(*blocks)]


def _along(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
