"""The exact distribution of attention's denominator X_i = c_i + Σ_k A'_ik w_ik, pair by pair where these can be listed.

One lattice serves every positive X, whatever its distribution: t = e^(hk) in the Laplace transform,

    1/X = h Σ_{k∈Z} e^(hk) e^(−e^(hk) X) (1 + ε),   |ε| ≤ 2|Γ(1 + 2πi/h)| for every X > 0:
    1.0e-5 for h = ln 2 (1/X²: 9e-5),   2.3e-4 for h = 0.9 (1/X²: 1.6e-3),

so only the two ends must follow X. Four weights at the first levels stand for all smaller k: they are exact for
integrands t, t², t³, t⁴, and the first level is so small that nothing else is left.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, pad
from torch.utils.checkpoint import checkpoint

from rade.distribution import Rates
from rade.graph.sparse import consecutive
from rade.moments.attention.grid import MOST_POINTS, MOST_SUMS
from rade.moments.attention.scores import (
    SHORT_LIST,
    ListedPairs,
    Scores,
    list_pairs,
    ordered_pairs,
)
from rade.sums import Sums

LARGEST = 5.52  # log y is cut here: e^−y is then 1e-109, and products of it are not denormal, which would be slow
BUDGET = 2**18  # numbers per temporary; more go in groups of targets, recomputed in the backward pass
FARTHEST = 2000.0  # log of a weight relative to M, either way; what lies further away counts as that
HUGE = 300.0  # pairs that much lighter or heavier than M are faint on no level that counts
MOST_PAIRS = 2**27  # a list beyond this does not fit into memory
LONGEST_LIST = 2**22  # nor one on grids beyond this
FEW = 6  # nodes with no more others than that go by pairs: to the last digits the same in any batch


@dataclass(frozen=True)
class Lattice:
    """How finely 1/X is resolved, and scores on grids.

    Attributes:
        step: h, in log t.
        start: the first level has e^(hk) e^(h start) E[X] ≤ 1.
        finish: the last one has log(e^(hk) · smallest X) at least that.
        faint: log y below which a pair is felt to first order only.
        silent: log y beyond which it is not felt at all.
        spacing: of log weights on a grid, where functions of them are cubic between the points.
        points: at least that many on the grids of sources and targets.
        listed: at most that many pairs of heads are placed on a grid one by one rather than nodes, whatever it costs.
        follows: whether slopes by pairs follow a row's largest weight M, as values do. If not, the error of 1/X, which
            swings with log X, has a slope in the scale of X: at FINE at most 1 % where one weight outweighs the others.
    """

    step: float
    start: int
    finish: float
    faint: float
    silent: float
    spacing: float
    points: int
    listed: int
    follows: bool

    @property
    def band(self) -> int:
        """The number of levels at which a pair is neither faint nor silent."""
        return math.ceil((self.silent - self.faint) / self.step) + 1

    def first_level(self, top: Tensor) -> Tensor:
        """The first k for a sum whose mean, and whose largest term, are at most e^top."""
        return torch.floor(-top / self.step) - self.start

    def last_level(self, bottom: Tensor) -> Tensor:
        """The last k for a sum that is at least e^bottom."""
        return torch.ceil((self.finish - bottom) / self.step)

    def weights(self, levels: int, like: Tensor) -> Tensor:
        """h for each of the levels, the first four with what lies before them, [levels]: h (1 + γ)."""
        weight = like.new_full((levels,), self.step)
        weight[:4] += self.step * like.new_tensor(self._before[:levels])
        return weight

    @cached_property
    def _before(self) -> list[float]:
        """γ with Σ_i γ_i b^{i(r+1)} = 1/(b^{r+1} − 1), b = e^h, r = 0 … 3."""
        base, i = math.exp(self.step), torch.arange(4, dtype=torch.double)
        found: list[float] = torch.linalg.solve(base ** (i * (i[:, None] + 1)), 1 / (base ** (i + 1) - 1)).tolist()
        return found


COARSE = Lattice(0.9, 2, math.log(4.0), -10.0, 3.0, 0.25, 128, SHORT_LIST, True)  # moments to 1e-3
FINE = Lattice(math.log(2.0), 4, math.log(10.0), -14.0, 4.1, 0.03125, 256, LONGEST_LIST, False)  # to 1e-5


def lattice_for(tolerance: float) -> Lattice:
    """The coarser one that keeps a tolerance."""
    return COARSE if tolerance >= 1e-3 else FINE


def terms(log_y: Tensor) -> tuple[Tensor, Tensor]:
    """y and e^−y; both finite and positive at any log y."""
    y = log_y.clamp(max=LARGEST).exp()
    return y, torch.exp(-y)


def mixed(rate: float | Tensor, u: Tensor) -> Tensor:
    """E[e^(−y A)] = 1 − π + π e^−y of a pair that is on at rate π, u = e^−y; never zero."""
    return (1.0 - rate) + rate * u


def variance_from(mean: Tensor, square: Tensor, rate: float | Tensor) -> Tensor:
    """Var[α'] from the moments given that the pair is on: π(m₂ − m₁²) + π(1−π) m₁².

    The two rules have errors of their own, so the first term is kept from falling below zero.
    """
    return rate * (square - mean.square()).clamp(min=0) + rate * (1.0 - rate) * mean.square()


def costs(scores: Scores, lattice: Lattice, dtype: torch.dtype) -> tuple[float, float, float]:
    """About what it costs to look at all pairs on their levels, to place them on grids, and to place nodes instead.

    Infinite where memory forbids it, or a lattice that wants its pairs listed. ``dtype`` is that of the grids.
    """
    s, t, graph, rows = scores.s.detach(), scores.t.detach(), scores.graph, scores.loop.numel()
    pairs = ordered_pairs(graph) * scores.heads
    if pairs <= FEW * rows:
        return 0.0, 1.0, 1.0
    ends = leaky_relu(torch.stack([s.min() + t.min(), s.max() + t.max()]), scores.slope)
    low, high = map(float, torch.cat([ends, scores.edge.detach().flatten()]).aminmax())
    levels, points = (high - low) / lattice.step + 10, min((high - low) / lattice.spacing, MOST_POINTS)
    widest = float(torch.maximum(s.max() - s.min(), t.max() - t.min()))
    sums = min(max(2 * widest / lattice.spacing, lattice.points), MOST_SUMS) ** 2
    # One is 7 ns of a core, forward and backward. Measured: 55 ns for a pair at a level, 110 ns for one on a grid, half
    # a ns to 1 ns for a level at each point of a row's grid, 7 ns for one at each two points of a graph's (8 features).
    table = rows * levels * points * torch.finfo(dtype).bits / 512
    by_pairs = 8.0 * pairs * min(lattice.band, levels) if pairs <= MOST_PAIRS else math.inf
    by_list = 6e4 + 16.0 * pairs + table if pairs <= LONGEST_LIST else math.inf
    of_all = graph.num_graphs * scores.heads * levels * sums + table if pairs > lattice.listed else math.inf
    return by_pairs, by_list, of_all


class Denominator(ABC):
    """What is asked of the distribution of X_i = c_i + Σ_k A'_ik w_ik."""

    rates: Rates

    @abstractmethod
    def on_edges(self, power: int) -> Tensor:
        """E[α'_ij^power] given that the edge is on, for the first two powers, [E, H]."""

    def edge_variance(self) -> Tensor:
        """Var[α'_ij], [E, H]."""
        return variance_from(self.on_edges(1), self.on_edges(2), 1.0 - self.rates.p)

    @abstractmethod
    def loop_mean(self) -> Tensor:
        """E[α'_ii], [n, H]."""

    @abstractmethod
    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        """Σ_{j∉N(i)} E[α'_ij] x_j."""

    @abstractmethod
    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        """Σ_{j∉N(i)} Var[α'_ij] x_j."""


class DenominatorByPairs(Denominator):
    """As `DenominatorByGrid`, for all pairs as one ragged list. A pair is looked at on a band of levels of its own.

    Below them its e^−y is 1, beyond them 0, so the time is O(pairs · band) however far the scores are apart.
    """

    def __init__(self, scores: Scores, rates: Rates, lattice: Lattice) -> None:
        self.rates, self.graph, self.pairs = rates, scores.graph, list_pairs(scores.graph)
        groups = list(_groups(scores, rates, self.pairs, lattice))
        found = [_moments(*g) if len(groups) == 1 else checkpoint(_moments, *g, use_reentrant=False) for g in groups]
        self.mean, self.square, self.loop = (torch.cat(parts) for parts in zip(*found))  # as `_moments` returns them

    def on_edges(self, power: int) -> Tensor:
        return (self.mean if power == 1 else self.square).index_select(0, self.pairs.edge)

    def loop_mean(self) -> Tensor:
        return self.loop

    def nonedge_mean(self, dtype: torch.dtype) -> Sums:
        return self._over_nonedges(self.rates.q * self.mean, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Sums:
        return self._over_nonedges(variance_from(self.mean, self.square, self.rates.q), dtype)

    def _over_nonedges(self, values: Tensor, dtype: torch.dtype) -> Sums:
        return Sums(self.graph, listed=((self.pairs.pattern, values.index_select(0, self.pairs.other).to(dtype)),))


Group = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Lattice]


def _groups(scores: Scores, rates: Rates, pairs: ListedPairs, lattice: Lattice) -> Iterator[Group]:
    """Consecutive targets whose pairs fit the budget: what `_moments` takes."""
    is_edge = torch.zeros_like(pairs.target, dtype=torch.double).index_fill(0, pairs.edge, 1.0)
    rate = is_edge * (1.0 - rates.p) + (1.0 - is_edge) * rates.q
    largest = scores.heard(scores.edge) if lattice.follows else scores.largest
    beta = (scores.listed(pairs) - largest.index_select(0, pairs.target)).clamp(-FARTHEST, FARTHEST)
    own = scores.own - largest
    own = torch.where(own > -torch.inf, own.clamp(min=-FARTHEST), own)
    first, last = _ends(beta, own, rate, pairs.target, lattice)
    levels = last - first + 1
    load = torch.maximum(pairs.rowptr.diff() * lattice.band, levels.amax(1).long()) * scores.heads
    for rows in consecutive(load, BUDGET):
        where = slice(int(pairs.rowptr[rows.start]), int(pairs.rowptr[rows.stop]))
        target = pairs.target[where] - rows.start
        yield beta[where], own[rows], rate[where, None], target, first[rows], levels[rows], lattice


@torch.no_grad()
def _ends(beta: Tensor, own: Tensor, rate: Tensor, target: Tensor, lattice: Lattice) -> tuple[Tensor, Tensor]:
    """First and last level of each row, [n, H]."""
    index = target[:, None].expand_as(beta)
    top = own.scatter_reduce(0, index, beta, "amax")
    lowest = torch.full_like(own, torch.inf).scatter_reduce(0, index, beta, "amin")
    expected = torch.full_like(own, 2.0).index_add(0, target, rate[:, None].expand_as(beta))
    lowest = torch.where(own > -torch.inf, own, lowest)
    top, lowest = (torch.where(end.isfinite(), end, 0.0) for end in (top, lowest))  # a row without anybody
    return lattice.first_level(top + expected.log()), lattice.last_level(lowest)


def _moments(
    beta: Tensor, own: Tensor, rate: Tensor, target: Tensor, first: Tensor, levels: Tensor, lattice: Lattice
) -> tuple[Tensor, ...]:
    """E[α'] and E[α'²] given that the pair is on, [P, H] each, and E[α'_ii], [n, H], of some rows.

    Takes log weights relative to M, rates [P, 1], the rows' first levels and their number.
    """
    span = int(levels.max()) if levels.numel() else 1
    width, heads = min(lattice.band, span), torch.arange(own.shape[1], device=own.device)
    step = torch.arange(width, dtype=beta.dtype, device=beta.device)
    base = first.index_select(0, target)
    latest = (levels - width).clamp(min=0).index_select(0, target)
    begin = torch.minimum(
        (torch.ceil((lattice.faint - beta.detach()) / lattice.step) - base).clamp(min=0), latest
    )  # in its row
    y, u = terms(((base + begin)[..., None] + step) * lattice.step + beta[..., None])  # [P, H, width]
    share = u / (mix := mixed(rate[..., None], u))
    row = (target[:, None] * len(heads) + heads) * (span + 1) + begin.long()  # of [n, H, span + 1], flat
    slot = row[..., None] + step.long()

    level = torch.arange(span, dtype=beta.dtype, device=beta.device)
    tau = (first[..., None] + level) * lattice.step  # [n, H, span]
    loop = (tau + own[..., None]).clamp(max=LARGEST).exp()
    log_laplace = _exponent(mix, rate, row, slot, (*own.shape, span + 1))[..., :span] - loop
    # A row has its own levels only, so that it is the same in any batch.
    weights = torch.where(level < levels[..., None], lattice.weights(span, beta), 0.0)
    density = weights * torch.exp(log_laplace)

    def integral(power: int) -> Tensor:
        """Σ_k ω_k e^L y^power share, where below its band a pair has share 1 and y^power = w^power t^power."""
        near = (pad(density, (0, 1)).flatten()[slot] * y.pow(power) * share).sum(2)
        before = pad((density * (power * tau).clamp(max=HUGE).exp()).cumsum(2), (1, 0)).flatten()[row]
        return near + (power * beta).clamp(max=HUGE).exp() * before

    return integral(1), integral(2), (density * loop).sum(2)


def _exponent(mix: Tensor, rate: Tensor, row: Tensor, slot: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Σ log(1 − π + π e^−y) over the pairs of each row, ``shape``: on their bands, and log(1 − π) from there on."""
    empty = mix.new_zeros(math.prod(shape))
    near = empty.index_add(0, slot.flatten(), mix.log().flatten())
    silent = mixed(rate, mix.new_tensor(-math.exp(LARGEST)).exp()).log().expand_as(row)
    beyond = empty.index_add(0, (row + slot.shape[-1]).flatten(), silent.flatten())
    return near.view(shape) + beyond.view(shape).cumsum(-1)
