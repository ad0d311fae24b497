"""RADE-OF and RADE-OFS, once for every aggregator: correction factors, and the operator that sums messages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Protocol

import torch
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.edge_operator import along
from rade.graph.graph import Graph
from rade.graph.messages import Messages
from rade.graph.operator import Diagonal, Operator, Sparse
from rade.memory import Memo, remembered
from rade.moments.base import Coefficients, Moments, Weights
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.rates import Rates
from rade.view.rows import Restricted
from rade.view.sampling import FreshViews
from rade.view.view import MeanView, View


@dataclass(frozen=True, eq=False)
class Terms:
    """All that corrects an aggregator under a law, whatever view is drawn from it."""

    graph: Graph
    mean: Moments  # E[α']
    edges: Tensor  # factor α/E[α'] on edges, at most the cap; 1 without correction
    loop: Tensor  # the same on loops
    uncut: Tensor  # the factor on edges before
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @property
    def clipped(self) -> Tensor:
        """Which edge factors were cut at the cap, [E] or [E, H]."""
        return self.uncut.detach() > self.edges.detach()

    @remembered
    def total(self) -> Tensor:
        """Z_i = Σ_{j∉N(i)} E[α'_ij], [n] or [n, H]; 0 where there is no non-neighbor (Eq. 9)."""
        ones = self.mean.edges.new_ones(self.graph.num_nodes, *self.mean.edges.shape[1:], 1)
        total = self.mean.nonedges.apply(ones).squeeze(-1)
        # All pairs − loops − edges leaves rounding error where nothing is left.
        return torch.where((self.graph.nonneighbors > 0).view(-1, *[1] * (total.dim() - 1)), total, 0.0)


def terms(coefficients: Coefficients, law: Law) -> Terms:
    """Factors α/E[α'] (Eq. 8) of an aggregator under a law; computed once, for all layers where they agree."""
    return coefficients.once(law, "terms", lambda: _terms(coefficients, law))


def _terms(coefficients: Coefficients, law: Law) -> Terms:
    mean = coefficients.expected(law)
    if not law.variant.corrects:
        edges = torch.ones_like(mean.edges)
        return Terms(law.graph, mean, edges, torch.ones_like(mean.loop), edges)
    edges, loop = coefficients.ratio(law)
    cap = coefficients.cap(law)
    if cap == math.inf:
        return Terms(law.graph, mean, edges, loop, edges)
    return Terms(law.graph, mean, edges.clamp(max=cap), loop.clamp(max=cap), edges)


class Aggregation(Protocol):
    """How messages become sums: an operator, or whatever a method puts in its place."""

    def apply(self, x: Any) -> Tensor:
        """Σ_j over the adjacency of messages x, [n, F] or [n, H, F], or of `Messages`."""


@singledispatch
def aggregation(adjacency: Adjacency, coefficients: Coefficients) -> Aggregation:
    """How an aggregator sums messages over an adjacency; register a function for an adjacency of your own.

    A `Graph` gives the clean aggregation (Eq. 3), a `View` the corrected one of training (Eq. 8–10), a `MeanView`
    that of inference (Eq. 11).
    """
    raise TypeError(
        f"expected a Graph, View or MeanView to aggregate over, got {type(adjacency).__name__}; register how messages "
        "are summed over it with rade.correction.aggregation.register"
    )


@aggregation.register
def _(adjacency: Graph, coefficients: Coefficients) -> Operator:
    """Σ_j α_ij m_j + α_ii m_i."""
    weights = coefficients.realised(coefficients.clean())
    return along(adjacency.pattern, weights.edges, weights.loop)


@aggregation.register
def _(adjacency: View, coefficients: Coefficients) -> Operator:
    """The training-time aggregation: Eq. 8–9 (RADE-OF), Eq. 10 (RADE-OFS), or uncorrected."""
    law = adjacency.law
    weights = coefficients.realised(coefficients.on(adjacency))
    if law.variant.corrects:
        of = terms(coefficients, law)
        weights = Weights(weights.edges * of.edges, weights.loop * of.loop, weights.added)
    edges: Operator = along(adjacency.graph.pattern, weights.edges, weights.loop)
    operator = edges + Operator((Sparse(adjacency.added, weights.added),))
    operator = _with_denoising(operator, law, coefficients)
    if not law.variant.centres or adjacency.added.size == 0:
        return operator
    # Centering: μ_i = (Σ_nonedges E[α'] m_j) / Z_i, once for each unit of added weight at i.
    added = adjacency.added.row_sum(weights.added)
    per_unit = added / torch.where(of.total != 0, of.total, 1.0)  # nothing is added where the total vanishes
    return operator + of.mean.nonedges.scaled(-per_unit)


@aggregation.register
def _(adjacency: MeanView, coefficients: Coefficients) -> Aggregation:
    """The clean aggregation, and for RADE-OFS Σ_nonedges E[α'] m_j in the same operator."""
    law = adjacency.law
    if _noisy(law) and law.views.sampling != "expected":
        found = _denoised(law, coefficients)
    else:  # also in training, where attention's dropout is part of the clean aggregation
        clean = shared_aggregation(adjacency.graph, coefficients)
        assert isinstance(clean, Operator)
        found = _with_denoising(clean, law, coefficients)
    return found + coefficients.expected(law).nonedges if law.variant.keeps_additions else found


def _with_denoising(operator: Operator, law: Law, coefficients: Coefficients) -> Operator:
    denoising = _denoising(law, coefficients)
    # What undoes noise has weights on edges for which single edges have no messages: they are not told apart any more.
    return Operator(operator.parts) + denoising if denoising.parts else operator


def _noisy(law: Law) -> bool:
    """Whether the graph itself is taken for a noisy one."""
    return law.noise != Rates(0.0, 0.0) or not law.trust.alike


def _denoising(law: Law, coefficients: Coefficients) -> Operator:
    """What turns the aggregation on a noisy graph into an estimate of that on the clean one; nothing without noise."""
    if not _noisy(law):
        return Operator()
    return coefficients.once(law, "denoising", lambda: _difference(law, coefficients))


def _difference(law: Law, coefficients: Coefficients) -> Operator:
    clean = coefficients.clean()
    return _denoised(law, coefficients) + Operator((Sparse(law.graph.pattern, -clean.edges), Diagonal(-clean.loop)))


def _denoised(law: Law, coefficients: Coefficients) -> Operator:
    """The estimate itself; what is known of the noise at each node is found once for all layers and passes."""
    observed = law.memo.once("observed", lambda: Observed(law.graph, law.noise, law.trust))
    return coefficients.once(law, "denoised", lambda: coefficients.denoised(observed))


@aggregation.register
def _(adjacency: Observed, coefficients: Coefficients) -> Operator:
    """What the clean graph under a noisy one would aggregate, as well as it can be told."""
    return coefficients.denoised(adjacency)


@aggregation.register
def _(adjacency: Restricted, coefficients: Coefficients) -> Aggregation:
    """The same sums for some rows."""
    whole = shared_aggregation(adjacency.whole, coefficients)
    assert isinstance(whole, Operator)
    return whole.rows(adjacency.nodes, adjacency.given)


@aggregation.register
def _(adjacency: FreshViews, coefficients: Coefficients) -> Aggregation:
    raise TypeError(
        "every layer has a view of its own here: a convolution must aggregate with self.send(adjacency, coefficients, "
        "messages), which finds the view of its layer, instead of rade.correction.propagate"
    )


def propagate(adjacency: Adjacency, coefficients: Coefficients, messages: Tensor | Messages) -> Tensor:
    """Aggregate messages [n, F] or [n, H, F], or `Messages` of edges, over what travels as ``edge_index``."""
    return shared_aggregation(adjacency, coefficients).apply(messages)


def shared_aggregation(adjacency: Adjacency, coefficients: Coefficients) -> Aggregation:
    """Layers whose coefficients have equal keys share one operator per adjacency."""
    key = coefficients.key
    if key is None:
        return aggregation(adjacency, coefficients)
    return adjacency.once(("aggregation", key), lambda: aggregation(adjacency, coefficients))
