"""The exact law of attention's denominator pair by pair: for small graphs, and for scores too far apart for cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rade.graph.operator import Operator, Sparse
from rade.moments.attention import lattice
from rade.moments.attention.lattice import FAINT, LARGEST, LN2, SILENT, mixed, variance_from
from rade.moments.attention.nonneighbors import list_pairs
from rade.moments.attention.scores import Scores
from rade.view.view import Rates

BAND = math.ceil((SILENT - FAINT) / LN2) + 1  # levels between faint and silent
BUDGET = 2**21  # numbers per temporary; more go in groups of targets, recomputed in the backward pass


class PairLaw:
    """As `CellLaw`, for all pairs as one ragged list. A pair is looked at on `BAND` levels of its own.

    Below them its e^−y is 1, beyond them 0, so the time is O(pairs · BAND) however far the scores are apart.
    """

    def __init__(self, scores: Scores, rates: Rates) -> None:
        self.scores, self.rates = scores, rates
        self.pairs = list_pairs(scores.graph)
        self.moments = self._in_groups()

    def edge_inverse(self) -> Tensor:
        """E[M_i/X_i] given that the edge is on, [E, H]; M_i is the largest weight that i hears."""
        return self.moments.inverse.index_select(0, self.pairs.edge)

    def edge_variance(self) -> Tensor:
        """Var[α'_ij], [E, H]."""
        mean, square = (of.index_select(0, self.pairs.edge) for of in (self.moments.mean, self.moments.square))
        return variance_from(mean, square, 1.0 - self.rates.p)

    def loop_inverse(self) -> Tensor:
        """E[M_i/X_i], [n, H]."""
        return self.moments.loop

    def nonedge_mean(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} E[α'_ij] x_j."""
        return self._over_nonedges(self.rates.q * self.moments.mean, dtype)

    def nonedge_variance(self, dtype: torch.dtype) -> Operator:
        """Σ_{j∉N(i)} Var[α'_ij] x_j."""
        return self._over_nonedges(variance_from(self.moments.mean, self.moments.square, self.rates.q), dtype)

    def _over_nonedges(self, values: Tensor, dtype: torch.dtype) -> Operator:
        return Operator((Sparse(self.pairs.pattern, values.index_select(0, self.pairs.other).to(dtype)),))

    def _in_groups(self) -> PairMoments:
        """Targets in groups of consecutive nodes whose pairs fit the budget."""
        pairs, graph = self.pairs, self.scores.graph
        rate = torch.ones(pairs.target.numel(), dtype=torch.double, device=graph.device) * self.rates.q
        rate = rate.index_fill(0, pairs.edge, 0.0).index_add(0, pairs.edge, rate.new_ones(len(pairs.edge)) * (1.0 - self.rates.p))
        beta = self.scores.at(pairs.target, pairs.source)
        beta, own = beta - self.scores.largest[pairs.target], self.scores.own - self.scores.largest
        first, last = _ends(beta.detach(), own.detach(), rate.detach(), pairs.target)
        levels = (last - first + 1).amax(1).long() if graph.num_nodes else first.new_zeros(0).long()
        load = torch.maximum(pairs.rowptr.diff() * BAND, levels) * self.scores.heads
        group = torch.div(load.cumsum(0), BUDGET, rounding_mode="floor")
        ends = torch.cat([(group.diff() > 0).nonzero().squeeze(1) + 1, group.new_tensor([graph.num_nodes])]).tolist()
        parts = []
        for begin, end in zip([0, *ends], ends):
            where = slice(int(pairs.rowptr[begin]), int(pairs.rowptr[end]))
            span = int(levels[begin:end].max()) if end > begin else 1
            inputs = (beta[where], own[begin:end], rate[where, None], pairs.target[where] - begin, first[begin:end], span)
            parts.append(_moments(*inputs) if len(ends) == 1 else checkpoint(_moments, *inputs, use_reentrant=False))
        return PairMoments(*(torch.cat(part) for part in zip(*parts)))


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Given that the pair is on: E[M/X], E[α'], E[α'²], [P, H] each; and E[M/X] of the whole row, [n, H]."""

    inverse: Tensor
    mean: Tensor
    square: Tensor
    loop: Tensor


def _ends(beta: Tensor, own: Tensor, rate: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """First and last level of each row, [n, H]."""
    index = target[:, None].expand_as(beta)
    top = own.scatter_reduce(0, index, beta, "amax")
    lowest = torch.full_like(own, torch.inf).scatter_reduce(0, index, beta, "amin")
    expected = 1.0 + torch.ones_like(own).index_add(0, target, rate[:, None].expand_as(beta))
    lowest = torch.where(own > -torch.inf, own, lowest)
    top, lowest = (torch.where(end.isfinite(), end, 0.0) for end in (top, lowest))  # a row without anybody
    return lattice.first_level(top + expected.log()), lattice.last_level(lowest)


def _moments(
    beta: Tensor, own: Tensor, rate: Tensor, target: Tensor, first: Tensor, span: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The moments of `PairMoments` for some rows: log weights beta [P, H] and own [n, H] relative to M, rates [P, 1]."""
    width = min(BAND, span)
    begin = torch.ceil((FAINT - beta.detach()) / LN2) - first[target]
    begin = begin.clamp(0, span - width)  # the pair's first level among those of its row, [P, H]
    step = torch.arange(width, dtype=beta.dtype, device=beta.device)
    y, u = lattice.terms(((first[target] + begin)[..., None] + step) * LN2 + beta[..., None])  # [P, H, width]
    mix = mixed(rate[..., None], u)
    row = (target[:, None] * own.shape[1] + torch.arange(own.shape[1], device=target.device)) * (span + 1) + begin.long()
    slot = row[..., None] + step.long()
    # What a pair adds to the exponent on its band, and from the end of the band on.
    shape = (*own.shape, span + 1)
    exponent = beta.new_zeros(own.numel() * (span + 1)).index_add(0, slot.flatten(), mix.log().flatten())
    silent = mixed(rate, mix.new_tensor(-math.exp(LARGEST)).exp()).log().expand_as(beta)
    beyond = beta.new_zeros(own.numel() * (span + 1)).index_add(0, (row + width).flatten(), silent.flatten())
    exponent = (exponent.view(shape) + beyond.view(shape).cumsum(2))[..., :span]
    tau = (first[..., None] + torch.arange(span, dtype=beta.dtype, device=beta.device)) * LN2  # [n, H, span]
    loop = (tau + own[..., None]).clamp(max=LARGEST).exp()
    density = lattice.node_weights(span, beta) * torch.exp(exponent - loop)
    share = u / mix

    def integral(power: int, relative: bool) -> Tensor:
        """Σ_k ω_k e^L y^power share; below a pair's band share is 1 and y^power is taken out of the sum."""
        # Beyond e^300 the clean coefficient is below e^−300 and its factor, 1 over this, no matter.
        scaled = density * (max(power, 1) * tau).clamp(max=300.0).exp()
        before = torch.nn.functional.pad(scaled.cumsum(2), (1, 0)).flatten()[row]
        if relative:
            return (torch.nn.functional.pad(scaled, (0, 1)).flatten()[slot] * share).sum(2) + before
        # A pair that is heavier than e^300 is faint on no level.
        faint = (power * beta).clamp(max=300.0).exp() * before
        return (torch.nn.functional.pad(density, (0, 1)).flatten()[slot] * y.pow(power) * share).sum(2) + faint

    loop = (density * tau.clamp(max=300.0).exp()).sum(2)
    return integral(1, relative=True), integral(1, relative=False), integral(2, relative=False), loop
