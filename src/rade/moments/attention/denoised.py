"""Attention on a graph with spurious and missing edges: numerator and denominator without them, in the mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.operator import AllPairs, Diagonal, Operator, Sparse
from rade.moments.attention.denominator import all_others
from rade.moments.attention.other_weights import OtherWeights
from rade.moments.attention.scores import PairScores, Scores
from rade.view.observed import Observed


def denoised_attention(scores: PairScores, observed: Observed, dtype: torch.dtype) -> Operator:
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
    heard = Sparse(pattern, (observed.gain * trusted * inverse[pattern.target]).to(dtype))
    parts = Operator((heard, Diagonal((own * inverse).to(dtype))))
    if observed.leak == 0.0:
        return parts
    return parts + everybody.operator().scaled((-observed.gain * off * inverse).to(dtype))


@dataclass(frozen=True, eq=False)
class _Everybody:
    """Weights of all other nodes, relative to the heaviest: their sum [n, H], and Σ_{j≠i} w_ij x_j as an operator."""

    total: Tensor
    operator: Callable[[], Operator]


def _everybody(scores: PairScores, edge: Tensor, dtype: torch.dtype) -> _Everybody:
    """In one sort where weights factor and edges have those of any pair, else edges and all non-neighbors."""
    if isinstance(scores, Scores) and scores.uniform and scores.slope <= 1.0 and scores.loop.numel() > 0:
        weights = OtherWeights(scores, dtype)
        return _Everybody(weights.total(), lambda: Operator((AllPairs(weights),)))
    others, pattern = all_others(scores)(scores, scores.heaviest()), scores.graph.pattern
    total, edges = pattern.row_sum(edge) + others.total(1), Operator((Sparse(pattern, edge.to(dtype)),))
    return _Everybody(total, lambda: edges + others.operator(_weight, total, total, dtype))


def _taken(observed: Observed, seen: Tensor, everyone: Tensor) -> Tensor:
    """What is taken off every pair of a target, times its weight, [n, H].

    seen, everyone: the weight of a target's edges as trusted, and that of all other nodes.
    """
    others = (observed.graph.per_node(observed.graph.sizes) - 1).clamp(min=1)
    expected = (observed.share * observed.seen / others)[:, None] * torch.ones_like(everyone)
    most = observed.share[:, None] * seen
    return torch.where(expected * everyone > most, most / torch.where(everyone > 0, everyone, 1.0), expected)


def _weight(w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The weight itself, whatever the law of the denominator; in the shape of the nodes' heads."""
    return w + 0.0 * mean
