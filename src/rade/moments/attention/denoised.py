"""Attention on a graph with spurious and missing edges: numerator and denominator without them, in the mean."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.operator import Diagonal, Operator, Sparse
from rade.moments.attention.denominator import all_others
from rade.moments.attention.scores import PairScores
from rade.view.observed import Observed
from rade.view.rates import number


def denoised_attention(scores: PairScores, observed: Observed, dtype: torch.dtype) -> Operator:
    """(own + Σ_j signed_ij w_ij x_j) / (own + Σ_j signed_ij w_ij), both sums unbiased, with pairs as in `signed_pairs`.

    The denominator hears at least one real neighbor of the mean observed weight. Factors of the ends of spurious edges
    (`Trust.ends`) are left out: sums over all non-neighbors have the target's factor alone.
    """
    pattern, shift = scores.graph.pattern, scores.heaviest()
    others = all_others(scores)(scores, shift)
    edge, own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
    trust = observed.trust.weights(pattern.size, edge.device)[:, None]
    edges = observed.gain * (trust - observed.leak) * edge
    off = observed.leak * observed.gain
    real = pattern.row_sum(edges) - (off * others.total(1) if off else 0.0)
    kept = (1.0 - number(observed.noise.p)) * observed.trust.real
    one = pattern.row_sum(trust * edge) / (kept * scores.graph.degree.clamp(min=1)[:, None])
    total = own + torch.maximum(real, one)
    inverse = torch.where(total > 0, 1.0 / torch.where(total > 0, total, 1.0), 0.0)  # who hears nobody
    heard = Sparse(pattern, (edges * inverse[pattern.target]).to(dtype))
    parts = Operator((heard, Diagonal((own * inverse).to(dtype))))
    if off == 0.0:
        return parts
    return parts + others.operator(_weight, total, total, dtype).scaled((-off * inverse).to(dtype))


def _weight(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The weight itself, whatever the law of the denominator; in the shape of the nodes' heads."""
    return w + 0.0 * mean
