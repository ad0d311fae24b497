"""Attention on a graph with spurious and missing edges: numerator and denominator without them, in the mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.moments.attention.cells import HeadKernel
from rade.moments.attention.delta import all_others
from rade.moments.attention.prefix import ThresholdSums
from rade.moments.attention.scores import PairScores, Scores
from rade.moments.denoise import Observed
from rade.sums import Sums


def denoised_attention(scores: PairScores, observed: Observed, dtype: torch.dtype) -> Sums:
    """(own + Σ_j signed_ij w_ij x_j) / (own + Σ_j signed_ij w_ij), with pairs as in `signed_pairs`.

    What is taken off a target is scaled twice: to the number of spurious edges that its degree lets expect, and to at
    most their share of its observed weight. So the denominator never vanishes, and coefficients add up to one: spurious
    edges that would outweigh the observed ones cannot all have been there. Where spurious edges prefer some nodes
    (`Trust.ends`) the target's number of them knows it; which sources they come from is left out.
    """
    pattern, shift = scores.graph.pattern, scores.heaviest()
    edge, own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
    trusted = observed.trust.weights(pattern.size, edge.device)[:, None] * edge
    seen, everybody = pattern.row_sum(trusted), _everybody(scores, edge, dtype)
    off = _taken(observed, seen, everybody.total)
    total = own + observed.gain * (seen - off * everybody.total)
    inverse = torch.where(total > 0, 1.0 / torch.where(total > 0, total, 1.0), 0.0)  # who hears nobody
    heard = (observed.gain * trusted * inverse[pattern.target]).to(dtype)
    found = Sums(scores.graph, heard, (own * inverse).to(dtype))
    if observed.leak == 0.0:
        return found
    return found + everybody.sums().scaled((-observed.gain * off * inverse).to(dtype))


@dataclass(frozen=True, eq=False)
class _Everybody:
    """Weights of all other nodes, relative to the heaviest: their sum [n, H], and Σ_{j≠i} w_ij x_j."""

    total: Tensor
    sums: Callable[[], Sums]


def _everybody(scores: PairScores, edge: Tensor, dtype: torch.dtype) -> _Everybody:
    """In one sort where weights factor and edges have those of any pair, else edges and all non-neighbors."""
    if isinstance(scores, Scores) and scores.uniform and scores.slope <= 1.0 and scores.loop.numel() > 0:
        weights = OtherWeights(scores, dtype)
        return _Everybody(weights.total(), lambda: Sums(scores.graph, everyone=(weights,)))
    others, edges = all_others(scores), Sums(scores.graph, edge.to(dtype))
    total = scores.graph.pattern.row_sum(edge) + others.total(1)
    return _Everybody(total, lambda: edges + others.sums(_weight, total, total, dtype))


def _taken(observed: Observed, seen: Tensor, everyone: Tensor) -> Tensor:
    """What is taken off every pair of a target, times its weight, [n, H].

    seen, everyone: the weight of a target's edges as trusted, and that of all other nodes.
    """
    others = (observed.graph.per_node(observed.graph.sizes) - 1).clamp(min=1)
    expected = (observed.share * observed.seen / others)[:, None] * torch.ones_like(everyone)
    most = observed.share[:, None] * seen
    return torch.where(expected * everyone > most, most / torch.where(everyone > 0, everyone, 1.0), expected)


def _weight(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The weight itself, whatever the distribution of the denominator; in the shape of the nodes' heads."""
    return w + 0.0 * mean


class OtherWeights(HeadKernel):
    """K_ij = w_ij / (the largest weight that i could hear), K_ii = 0; for scores s_j + t_i of edges and others alike.

    Exact, by one sort: e^LeakyReLU(s_j + t_i) is e^{t_i} e^{s_j} for sources above the kink s_j = −t_i, and
    e^{a t_i} e^{a s_j} below, slope a. With sources in falling order of s both are sums over the first ones of a
    segment, a head of a graph.

    The node's own part is taken off the sum over everybody, which loses no digits as long as a heavier one is in it:
    nodes with the largest s of their segment, ``top``, are summed over by themselves.
    """

    def __init__(self, scores: Scores, dtype: torch.dtype) -> None:
        self.scores, self.dtype, self.heads = scores, dtype, scores.heads
        graph, slope, shift = scores.graph, scores.slope, scores.heaviest().flatten()
        s, t, self.count = scores.s.flatten(), scores.t.flatten(), graph.sizes.repeat_interleave(self.heads)
        heads = torch.arange(self.heads, device=graph.device)
        self.segment = (graph.batch[:, None] * self.heads + heads).flatten()
        self.first = self.count.cumsum(0) - self.count
        self.order, self.rank, self.above = _falling(s.detach(), -t.detach(), self.segment, self.count)
        self.top = self.order[self.first[self.count > 0]]
        largest = s.new_zeros(self.count.numel()).index_copy(0, self.segment[self.top], s.detach()[self.top])
        far = largest.index_select(0, self.segment)
        self.keys = torch.stack([torch.exp(s - far), torch.exp(slope * (s - far))], 1)  # at most 1
        self.high, self.low = torch.exp(t + far - shift), torch.exp(slope * (t + far) - shift)
        self.own = torch.exp(scores.loop.flatten() - shift)
        at_top = torch.zeros_like(self.count).index_copy(0, self.segment[self.top], self.top)[self.segment]
        to_top = torch.exp(leaky_relu(s + t[at_top], slope) - shift[at_top])
        self.to_top = to_top.index_fill(0, self.top, 0.0)
        self.sums = ThresholdSums(self.segment, self.rank, self.keys, self.count, self.segment, self.above)
        self.prepared = self.sums.prepare(torch.stack([self.high, -self.low], 1), dtype)

    def total(self) -> Tensor:
        """Σ_{j≠i} K_ij in double precision, [n, H]."""
        upto = torch.cat([self.keys[:1] * 0, self.keys[self.order].cumsum(0)])
        start = upto.index_select(0, self.first[self.segment])
        here = upto.index_select(0, self.first[self.segment] + self.above) - start
        whole = upto.index_select(0, (self.first + self.count)[self.segment]) - start
        everybody = self.high * here[:, 0] + self.low * (whole[:, 1] - here[:, 1])
        return self._without_own(everybody[:, None], torch.ones_like(everybody[:, None])).view(-1, self.heads)

    def apply(self, x: Tensor) -> Tensor:
        """Σ_{j≠i} K_ij x_j, [n, H, F]."""
        rows = x.flatten(0, 1).to(self.dtype)
        above, whole = self.sums.apply(self.prepared, rows)
        below = whole[:, 1] if len(whole) == 1 else whole[:, 1].index_select(0, self.segment)
        everybody = torch.addcmul(above, self.low.to(self.dtype)[:, None], below)
        return self._without_own(everybody, rows).view_as(x)

    def _without_own(self, everybody: Tensor, rows: Tensor) -> Tensor:
        """Sums over everybody [R, F] of rows [R, F], less the node's own part."""
        out = torch.addcmul(everybody, self.own.to(rows)[:, None], rows, value=-1.0)
        weight, segments = self.to_top.to(rows), self.count.numel()
        if segments == 1:
            tops = weight[None] @ rows
        else:
            tops = rows.new_zeros(segments, rows.shape[1]).index_add(0, self.segment, weight[:, None] * rows)
            tops = tops.index_select(0, self.segment[self.top])
        return out.index_copy(0, self.top, tops)


def _falling(s: Tensor, kink: Tensor, segment: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows by segment and falling s, the place of each in its segment, and how many of it lie above its kink."""
    rising, order = s.sort()
    size = s.numel() + 1
    place = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=s.device))
    below = torch.searchsorted(rising, kink.contiguous(), right=True)  # among all segments
    keys, rows = (segment * size + place).sort()
    first = count.cumsum(0) - count
    last = (first + count)[segment] - 1
    at = torch.empty_like(rows).index_copy_(0, rows, torch.arange(len(rows), device=s.device))
    rank = last - at
    above = last + 1 - torch.searchsorted(keys, segment * size + below)
    fallen = torch.empty_like(rows).index_copy_(0, first[segment] + rank, torch.arange(len(rows), device=s.device))
    return fallen, rank, above
