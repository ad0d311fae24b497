"""The exact law of attention's denominator pair by pair: for small graphs, and for scores too far apart for cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from rade.graph.operator import Operator, Sparse
from rade.moments.attention import lattice
from rade.moments.attention.lattice import FAINT, LARGEST, LN2, SILENT, mixed, variance_from
from rade.moments.attention.nonneighbors import ListedPairs, list_pairs
from rade.moments.attention.scores import PairScores
from rade.view.rates import Rates

BAND = math.ceil((SILENT - FAINT) / LN2) + 1  # levels between faint and silent
BUDGET = 2**18  # numbers per temporary; more go in groups of targets, recomputed in the backward pass
MOST_LEVELS = 4096  # of a row; beyond it the gaps between its weights are narrowed
HUGE = 300.0  # pairs that much lighter or heavier than M are faint on no level that counts
GAP = 40.0  # weights e^40 apart cannot be told from weights further apart in double precision


class PairLaw:
    """As `CellLaw`, for all pairs as one ragged list. A pair is looked at on `BAND` levels of its own.

    Below them its e^−y is 1, beyond them 0, so the time is O(pairs · BAND) however far the scores are apart.
    """

    def __init__(self, scores: PairScores, rates: Rates) -> None:
        self.rates, self.pairs = rates, list_pairs(scores.graph)
        groups = list(_groups(scores, rates, self.pairs))
        found = [_moments(*g) if len(groups) == 1 else checkpoint(_moments, *g, use_reentrant=False) for g in groups]
        self.moments = PairMoments(*(torch.cat(parts) for parts in zip(*found)))

    def edge_mean(self) -> Tensor:
        """E[α'_ij] given that the edge is on, [E, H]."""
        return self.moments.mean.index_select(0, self.pairs.edge)

    def edge_variance(self) -> Tensor:
        """Var[α'_ij], [E, H]."""
        square = self.moments.square.index_select(0, self.pairs.edge)
        return variance_from(self.edge_mean(), square, 1.0 - self.rates.p)

    def loop_mean(self) -> Tensor:
        """E[α'_ii], [n, H]."""
        return self.moments.loop

    def nonedge_mean(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} E[α'_ij] x_j."""
        return self._over_nonedges(self.rates.q * self.moments.mean, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} Var[α'_ij] x_j."""
        return self._over_nonedges(variance_from(self.moments.mean, self.moments.square, self.rates.q), dtype)

    def _over_nonedges(self, values: Tensor, dtype: torch.dtype) -> Operator:
        return Operator((Sparse(self.pairs.pattern, values.index_select(0, self.pairs.other).to(dtype)),))


@dataclass(frozen=True, eq=False)
class PairMoments:
    """E[α'] and E[α'²] given that the pair is on, [P, H] each, and E[α'_ii], [n, H]."""

    mean: Tensor
    square: Tensor
    loop: Tensor


Group = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _groups(scores: PairScores, rates: Rates, pairs: ListedPairs) -> Iterator[Group]:
    """Consecutive targets whose pairs fit the budget: what `_moments` takes."""
    nodes, heads = scores.own.shape
    is_edge = torch.zeros_like(pairs.target, dtype=torch.double).index_fill(0, pairs.edge, 1.0)
    rate = is_edge * (1.0 - rates.p) + (1.0 - is_edge) * rates.q
    beta = scores.listed(pairs) - scores.largest.index_select(0, pairs.target)
    own = scores.own - scores.largest
    first, last = _ends(beta, own, rate, pairs.target)
    if bool((last - first > MOST_LEVELS).any()):
        beta, own = _narrowed(beta, own, pairs.target)
        first, last = _ends(beta, own, rate, pairs.target)
    levels = last - first + 1
    load = torch.maximum(pairs.rowptr.diff() * BAND, levels.amax(1).long()) * heads
    turns = (torch.div(load.cumsum(0), BUDGET, rounding_mode="floor").diff() > 0).nonzero().squeeze(1) + 1
    ends = [*turns.tolist(), nodes]
    for begin, end in zip([0, *ends], ends):
        where = slice(int(pairs.rowptr[begin]), int(pairs.rowptr[end]))
        target = pairs.target[where] - begin
        yield beta[where], own[begin:end], rate[where, None], target, first[begin:end], levels[begin:end]


@torch.no_grad()
def _ends(beta: Tensor, own: Tensor, rate: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """First and last level of each row, [n, H]."""
    index = target[:, None].expand_as(beta)
    top = own.scatter_reduce(0, index, beta, "amax")
    lowest = torch.full_like(own, torch.inf).scatter_reduce(0, index, beta, "amin")
    expected = torch.full_like(own, 2.0).index_add(0, target, rate[:, None].expand_as(beta))
    lowest = torch.where(own > -torch.inf, own, lowest)
    top, lowest = (torch.where(end.isfinite(), end, 0.0) for end in (top, lowest))  # a row without anybody
    return lattice.first_level(top + expected.log()), lattice.last_level(lowest)


def _narrowed(beta: Tensor, own: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The same log weights with gaps between neighbors in a row of at most GAP; M, at zero, stays."""
    heads = torch.arange(own.shape[1], device=own.device)
    row = torch.cat([target, torch.arange(len(own), device=own.device)])[:, None] * len(heads) + heads
    value, row = torch.cat([beta, own]).detach().flatten(), row.flatten()
    order = value.argsort()
    order = order[row[order].argsort(stable=True)]
    ordered, of = value[order], row[order]
    wide = (ordered.diff() - GAP).clamp(min=0).nan_to_num(0.0, posinf=0.0) * (of.diff() == 0)  # ∞: there is no loop
    excess = pad(wide.cumsum(0), (1, 0))
    anchor = excess.new_full((own.numel(),), -torch.inf)
    anchor = anchor.scatter_reduce(0, of, torch.where(ordered <= 0, excess, -torch.inf), "amax")
    anchor = torch.where(anchor > -torch.inf, anchor, 0.0)
    shift = torch.empty_like(excess).index_copy_(0, order, excess - anchor[of]).view(-1, own.shape[1])
    return beta - shift[: len(beta)], own - shift[len(beta) :]


def _moments(
    beta: Tensor, own: Tensor, rate: Tensor, target: Tensor, first: Tensor, levels: Tensor
) -> tuple[Tensor, ...]:
    """`PairMoments` of some rows: log weights relative to M, rates [P, 1], the rows' first levels and their number."""
    span = int(levels.max()) if levels.numel() else 1
    width, heads = min(BAND, span), torch.arange(own.shape[1], device=own.device)
    step = torch.arange(width, dtype=beta.dtype, device=beta.device)
    base = first.index_select(0, target)
    latest = (levels - width).clamp(min=0).index_select(0, target)
    begin = torch.minimum((torch.ceil((FAINT - beta.detach()) / LN2) - base).clamp(min=0), latest)  # in its row
    y, u = lattice.terms(((base + begin)[..., None] + step) * LN2 + beta[..., None])  # [P, H, width]
    share = u / (mix := mixed(rate[..., None], u))
    row = (target[:, None] * len(heads) + heads) * (span + 1) + begin.long()  # of [n, H, span + 1], flat
    slot = row[..., None] + step.long()

    level = torch.arange(span, dtype=beta.dtype, device=beta.device)
    tau = (first[..., None] + level) * LN2  # [n, H, span]
    loop = (tau + own[..., None]).clamp(max=LARGEST).exp()
    log_laplace = _exponent(mix, rate, row, slot, (*own.shape, span + 1))[..., :span] - loop
    # A row has its own levels only, so that it is the same in any batch.
    weights = torch.where(level < levels[..., None], lattice.node_weights(span, beta), 0.0)
    density = weights * torch.exp(log_laplace)

    def integral(power: int) -> Tensor:
        """Σ_k ω_k e^L y^power share, where below its band a pair has share 1 and y^power = w^power 2^(k power)."""
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
