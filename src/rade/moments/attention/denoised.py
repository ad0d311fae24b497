"""Attention on a graph with spurious and missing edges: numerator and denominator without them, in the mean."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.operator import Diagonal, Operator, Sparse
from rade.moments.attention.denominator import all_others
from rade.moments.attention.scores import PairScores
from rade.view.observed import Observed


def denoised_attention(scores: PairScores, observed: Observed, dtype: torch.dtype) -> Operator:
    """(own + Σ_j signed_ij w_ij x_j) / (own + Σ_j signed_ij w_ij), with pairs as in `signed_pairs`.

    What is taken off a target is scaled twice: to the number of spurious edges that its degree lets expect, and to at
    most their share of its observed weight. So the denominator never vanishes, and coefficients add up to one: spurious
    edges that would outweigh the observed ones cannot all have been there. Factors of the ends of spurious edges
    (`Trust.ends`) are left out: sums over all non-neighbors have the target's factor alone.
    """
    pattern, shift = scores.graph.pattern, scores.heaviest()
    others = all_others(scores)(scores, shift)
    edge, own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
    trusted = observed.trust.weights(pattern.size, edge.device)[:, None] * edge
    everyone = pattern.row_sum(edge) + others.total(1)
    off = _taken(observed, pattern.row_sum(trusted), everyone)
    edges = observed.gain * (trusted - off[pattern.target] * edge)
    total = own + observed.gain * (pattern.row_sum(trusted) - off * everyone)
    inverse = torch.where(total > 0, 1.0 / torch.where(total > 0, total, 1.0), 0.0)  # who hears nobody
    heard = Sparse(pattern, (edges * inverse[pattern.target]).to(dtype))
    parts = Operator((heard, Diagonal((own * inverse).to(dtype))))
    if observed.leak == 0.0:
        return parts
    return parts + others.operator(_weight, total, total, dtype).scaled((-observed.gain * off * inverse).to(dtype))


def _taken(observed: Observed, seen: Tensor, everyone: Tensor) -> Tensor:
    """What is taken off every pair of a target, times its weight, [n, H].

    seen, everyone: the weight of a target's edges as trusted, and that of all other nodes.
    """
    expected = observed.leak * observed.excess[:, None] * torch.ones_like(everyone)
    most = observed.share[:, None] * seen
    return torch.where(expected * everyone > most, most / torch.where(everyone > 0, everyone, 1.0), expected)


def _weight(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The weight itself, whatever the law of the denominator; in the shape of the nodes' heads."""
    return w + 0.0 * mean
