"""RADE-OF and RADE-OFS, once for every aggregator: the corrected operator, and the variance of what it computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import Diagonal, Operator, Sparse
from rade.moments.base import Coefficients, Moments, Weights
from rade.view.view import FreshViews, Law, MeanView, Variant, View


@singledispatch
def propagate(adjacency: Any, coefficients: Coefficients, messages: Tensor) -> Tensor:
    """Aggregate messages [n, F] or [n, H, F] over whatever travels as ``edge_index``.

    A `Graph` gives the clean aggregation (Eq. 3), a `View` the corrected one of training (Eq. 5–7, 10), a `MeanView`
    that of inference (Eq. 11). Other adjacencies can be registered.
    """
    raise TypeError(f"expected a Graph, View or MeanView to aggregate over, got {type(adjacency).__name__}")


@propagate.register
def _(adjacency: Graph, coefficients: Coefficients, messages: Tensor) -> Tensor:
    return _shared(adjacency, coefficients, lambda: clean_operator(coefficients)).apply(messages)


@propagate.register
def _(adjacency: View, coefficients: Coefficients, messages: Tensor) -> Tensor:
    return _shared(adjacency, coefficients, lambda: view_operator(coefficients, adjacency)).apply(messages)


@propagate.register
def _(adjacency: MeanView, coefficients: Coefficients, messages: Tensor) -> Tensor:
    out = propagate(adjacency.graph, coefficients, messages)
    if adjacency.law.correction.variant is Variant.OFS:
        out = out + coefficients.mean(adjacency.law).nonedges.apply(messages)
    return out


@propagate.register
def _(adjacency: FreshViews, coefficients: Coefficients, messages: Tensor) -> Tensor:
    return propagate(adjacency.draw(), coefficients, messages)


def _shared(adjacency: Graph | View, coefficients: Coefficients, build: Any) -> Operator:
    """Layers whose coefficients do not depend on features share one operator per graph or view."""
    key = coefficients.key
    operator: Operator = build() if key is None else adjacency.once(key, build)
    return operator


def clean_operator(coefficients: Coefficients) -> Operator:
    """Σ_j α_ij m_j + α_ii m_i on the clean graph."""
    return _weighted(coefficients.realised(coefficients.clean()), coefficients.graph)


def view_operator(coefficients: Coefficients, view: View) -> Operator:
    """The training-time aggregation on a view: Eq. 6–7 (RADE-OF), Eq. 10 (RADE-OFS), or uncorrected."""
    seen = coefficients.on(view)
    realised = coefficients.realised(seen)
    if view.law.correction.variant is Variant.NONE:
        return _weighted(realised, view.graph) + Operator((Sparse(view.added, realised.added),))
    mean = coefficients.mean(view.law)
    factor = correction_factor(coefficients, mean, view.law)
    corrected = Weights(realised.edges * factor.edges, realised.loop * factor.loop, realised.added)
    operator = _weighted(corrected, view.graph) + Operator((Sparse(view.added, corrected.added),))
    if view.law.correction.variant is Variant.OFS:
        return operator
    # Centering: μ_i = (Σ_nonedges E[α'] m_j) / Z_i, once for each unit of added weight at i.
    total = nonedge_total(view.graph, mean)
    added = view.added.row_sum(corrected.added)
    share = added / torch.where(total != 0, total, 1.0)  # nothing is added where the total vanishes
    return operator + mean.nonedges.scaled(-share)


def _weighted(weights: Weights, graph: Graph) -> Operator:
    return Operator((Sparse(graph.pattern, weights.edges), Diagonal(weights.loop)))


@dataclass(frozen=True, eq=False)
class Factor:
    """Correction factors α/E[α'] on edges and loops, and which edge factors were clipped."""

    edges: Tensor
    loop: Tensor
    clipped: Tensor


def correction_factor(coefficients: Coefficients, mean: Moments, law: Law) -> Factor:
    """α_ij / E[α'_ij] (Eq. 6), at most ``max_correction``."""
    edges, loop = coefficients.ratio(law, mean)
    cap = coefficients.max_correction(law)
    return Factor(edges.clamp(max=cap), loop.clamp(max=cap), (edges > cap).detach())


def nonedge_total(graph: Graph, mean: Moments) -> Tensor:
    """Z_i = Σ_{j∉N(i)} E[α'_ij], [n] or [n, H]; 0 where there is no non-neighbor (Eq. 7)."""
    ones = mean.edges.new_ones(graph.num_nodes, *mean.edges.shape[1:], 1)
    total = mean.nonedges.apply(ones).squeeze(-1)
    # All pairs − loops − edges leaves rounding error where nothing is left.
    return torch.where(_like(graph.nonneighbors > 0, total), total, 0.0)


def _like(mask: Tensor, values: Tensor) -> Tensor:
    """A node mask [n] shaped to broadcast against values [n, ...]."""
    return mask.view(-1, *[1] * (values.dim() - 1))
