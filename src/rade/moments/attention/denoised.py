"""Attention on a graph with spurious and missing edges: numerator and denominator without them, in the mean."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.moments.attention.delta import all_others
from rade.moments.attention.scores import PairScores
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
    seen, others = pattern.row_sum(trusted), all_others(scores)
    everybody = pattern.row_sum(edge) + others.total(1)  # but the node itself
    off = _taken(observed, seen, everybody)
    total = own + observed.gain * (seen - off * everybody)
    inverse = torch.where(total > 0, 1.0 / torch.where(total > 0, total, 1.0), 0.0)  # nodes that receive nothing
    heard = (observed.gain * trusted * inverse[pattern.target]).to(dtype)
    found = Sums(scores.graph, heard, (own * inverse).to(dtype))
    if observed.leak == 0.0:
        return found
    sums = Sums(scores.graph, edge.to(dtype)) + others.sums(_weight, everybody, everybody, dtype)
    return found + sums.scaled((-observed.gain * off * inverse).to(dtype))


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
