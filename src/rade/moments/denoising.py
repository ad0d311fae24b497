"""Undoing noise in a graph: every pair counts (wA' − qs)/((1−p)r − qs), on average 1 on clean edges, 0 elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.operator import AllPairs, Diagonal, LowRank, Operator, Sparse
from rade.view.observed import Observed


def signed_pairs(observed: Observed, left: Tensor, right: Tensor, excess: Tensor | float = 1.0) -> Operator:
    """Σ_{j≠i} l_i r_j (w_ij A'_ij − qs)/((1−p)r − qs) x_j with factors l, r [n] of the ends; w, s, r as in `Trust`.

    Observed edges count for more than one, all other pairs a little less than 0; one sparse product and rank one.
    Where noise differs by factors a_i a_j of the ends, qs a_i a_j/((1−p)r − qs) is taken off every pair; the mean is
    then exact on clean edges and off by O(q²) on others. ``excess`` [n] scales what is taken off each target.
    """
    graph, pattern = observed.graph, observed.graph.pattern
    trust = observed.gain * observed.trust.weights(pattern.size, left.device)
    off, ends = observed.leak * observed.gain, observed.trust.factors(graph.num_nodes, left.device)
    if isinstance(observed.trust.ends, Tensor) and off > 0.0:
        trust = trust * (1.0 + off * ends[pattern.target] * ends[pattern.source]) / (1.0 + off)
    edges = Sparse(pattern, trust.to(left.dtype) * (left[pattern.target] * right[pattern.source]))
    if off == 0.0:
        return Operator((edges,))
    ends = ends.to(left.dtype)
    taken = -off * excess * torch.ones_like(left) * ends * left
    everywhere = LowRank(graph, taken[:, None], (ends * right)[:, None])
    return Operator((edges, AllPairs(everywhere), Diagonal(-everywhere.loops())))
