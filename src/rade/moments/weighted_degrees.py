"""Moments of random weighted degrees: E[X^(−s)] for X = c + Σ_k A'_ik e_ik + w_i Bin(b_i, q)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rade.distribution import Distribution
from rade.graph.sparse import consecutive
from rade.moments.degrees import TO, expansion, points

BUDGET = 2**20  # numbers per temporary; where derivatives are recorded more are computed again in the backward pass
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
    """

    certain: Tensor
    powers: tuple[float, ...]
    by_entry: bool = False
    joined: float = 0.0


@dataclass(frozen=True, eq=False)
class WeightedDegrees:
    """The random part of the degrees of some nodes; weights e > 0 [E] and w > 0 [n] in double precision."""

    target: Tensor  # [E] row of each entry, ascending
    weight: Tensor
    added: Tensor
    nonneighbors: Tensor  # [n]

    def over(self, condition: Condition, of_edges: Tensor, of_others: Tensor) -> Tensor:
        """Σ over the random edges of every row: of_edges [E, ...] of edges, of_others [n, ...] of each non-neighbor."""
        others = (self.nonneighbors - condition.joined).clamp(min=0).view(-1, *[1] * (of_others.dim() - 1))
        everybody = self.rows(condition, self.row_sum(of_edges) + others * of_others)
        return everybody - of_edges if condition.by_entry else everybody

    def row_sum(self, values: Tensor) -> Tensor:
        """[E, ...] → [n, ...]."""
        return values.new_zeros(len(self.added), *values.shape[1:]).index_add(0, self.target, values)

    def rows(self, condition: Condition, values: Tensor) -> Tensor:
        """Values of nodes [n, ...] for every row."""
        return values.index_select(0, self.target) if condition.by_entry else values

    def scale(self, p: Tensor, q: Tensor, wanted: Sequence[Condition]) -> Tensor:
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

    def blocks(
        self, wanted: Sequence[Condition], most: int
    ) -> Iterator[tuple[slice, WeightedDegrees, list[Condition]]]:
        """Consecutive nodes with about ``most`` nodes and entries, their degrees, and the rows of theirs."""
        counts = torch.bincount(self.target, minlength=len(self.added))
        upto = torch.cat([counts[:1] * 0, counts.cumsum(0)])
        for nodes in consecutive(counts + 1, most):
            own = slice(int(upto[nodes.start]), int(upto[nodes.stop]))
            target, others = self.target[own] - nodes.start, self.nonneighbors[nodes]
            block = WeightedDegrees(target, self.weight[own], self.added[nodes], others)
            yield nodes, block, [replace(c, certain=c.certain[own if c.by_entry else nodes]) for c in wanted]


Found = list[list[Tensor]]  # E[X^−s] of every row, for each condition and each of its powers


def inverse_moments(degrees: WeightedDegrees, distribution: Distribution, wanted: Sequence[Condition]) -> Found:
    """As ``distribution.correction.moments`` says; differentiable in the rates and the weights, to any order."""
    rates, device = distribution.rates, degrees.weight.device
    p, q = (torch.as_tensor(rate, dtype=torch.double, device=device) for rate in (rates.p, rates.q))
    if distribution.correction.moments == "delta":
        return [_expanded(degrees, condition, p, q) for condition in wanted]
    scale = degrees.scale(p.detach(), q.detach(), wanted)
    x, steps = _reach(degrees, p, q, wanted, scale)

    def part(nodes: slice, block: WeightedDegrees, here: list[Condition], p: Tensor, q: Tensor) -> Found:
        exponents = _log_laplace(block, p, q, here, x / scale[nodes, None])
        return [_sums(block, c, e.exp(), x, steps, scale[nodes]) for c, e in zip(here, exponents)]

    blocks = list(degrees.blocks(wanted, max(1, BUDGET // len(x))))
    if len(blocks) == 1:
        return part(*blocks[0], p, q)
    found = [cast(Found, checkpoint(part, *block, p, q, use_reentrant=False)) for block in blocks]
    return [[torch.cat(values) for values in zip(*rows)] for rows in zip(*found)]


@torch.no_grad()
def _reach(
    degrees: WeightedDegrees, p: Tensor, q: Tensor, wanted: Sequence[Condition], scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Nodes x of the rule, of which t = x/scale_i, and their steps.

    The smallest X of a hub may be far below its mean: the rule goes on until the transform of every row has vanished.
    """
    to, one = TO, scale.new_ones(1)
    while True:
        (x,), steps = points(one, to)
        rows = torch.cat(_log_laplace(degrees, p, q, wanted, x[-1:] / scale[:, None]))
        if to >= FARTHEST or rows.numel() == 0 or float(rows.max()) <= SILENT:
            return x, steps
        to += 1.0


def _log_laplace(
    degrees: WeightedDegrees, p: Tensor, q: Tensor, wanted: Sequence[Condition], t: Tensor
) -> list[Tensor]:
    """log E[e^(−tX)] at t [n, nodes] for every row, [rows, nodes]."""
    gone = torch.exp(t.index_select(0, degrees.target) * -degrees.weight[:, None])
    edge = (p + (1.0 - p) * gone).clamp(min=NEVER).log()
    # Non-neighbors may count a million times: to the last digit for small y = tw, too.
    y = t * degrees.added[:, None]
    far = ((1.0 - q) + q * torch.exp(-y.clamp(min=1.0))).clamp(min=NEVER).log()
    other = torch.where(y < 1.0, torch.log1p(q * torch.expm1(-y.clamp(max=1.0))), far)
    return [degrees.over(c, edge, other) - c.certain[:, None] * degrees.rows(c, t) for c in wanted]


def _sums(
    degrees: WeightedDegrees, condition: Condition, density: Tensor, x: Tensor, steps: Tensor, scale: Tensor
) -> list[Tensor]:
    """1/Γ(s) ∫ t^(s−1) E[e^(−tX)] dt of every row, for each power, from E[e^(−tX)] at the nodes of the rule."""
    powers = [x.pow(s) * (steps / math.gamma(s)) for s in condition.powers]
    sums = (density @ torch.stack(powers, 1)).unbind(1)
    scale = degrees.rows(condition, scale)
    return [value * scale.pow(-s) for value, s in zip(sums, condition.powers)]


def _expanded(degrees: WeightedDegrees, condition: Condition, p: Tensor, q: Tensor) -> list[Tensor]:
    """By the paper's expansion."""
    e, w = degrees.weight, degrees.added
    mean = condition.certain + degrees.over(condition, (1.0 - p) * e, q * w)
    variance = degrees.over(condition, p * (1.0 - p) * e.square(), q * (1.0 - q) * w.square())
    return [expansion(mean, variance, s) for s in condition.powers]
