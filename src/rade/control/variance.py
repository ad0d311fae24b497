"""Variance of the logits under random views (Prop. 3), at nodes and after pooling, for every aggregator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.correction import terms
from rade.graph.graph import Graph
from rade.graph.messages import Messages, along_edges, to_anybody
from rade.graph.nodes import Nodes, nodes_of
from rade.graph.operator import Operator, Sparse
from rade.moments.base import Coefficients, Sent
from rade.view.law import Law


@dataclass(frozen=True, eq=False)
class LogitVariance:
    """Var(δ) split into what dropping edges and what adding non-edges contributes; [n, C] or, pooled, [B, C]."""

    drop: Tensor
    add: Tensor

    @property
    def total(self) -> Tensor:
        """Var(δ)."""
        return self.drop + self.add

    def rows(self, index: Tensor) -> LogitVariance:
        """The variance of some rows."""
        return LogitVariance(self.drop.index_select(0, index), self.add.index_select(0, index))


def variance(sent: Sent, law: Law, rows: Tensor | None = None) -> LogitVariance:
    """Var(δ_ic) = Σ_j m̃_ijc² Var(α'_ij) at every node, or at some ``rows`` (Eq. 12).

    Messages are those of the last convolution, pushed through the linear head. Heads share A': on edges their
    covariance is (1−π)/π E_h E_k; on non-edges they are taken as independent.
    """
    nodes = None if rows is None else _some(rows, law.graph.num_nodes)
    if rows is None or nodes is None:
        found = _node_variance(_corrected(sent, law), sent.coefficients, law)
        return found if rows is None else found.rows(rows)
    return _node_variance(_corrected(sent, law, nodes), sent.coefficients, law)


def pooled_variance(sent: Sent, law: Law, mean: bool, exact: bool, rows: Tensor | None = None) -> LogitVariance:
    """Variance of the graph logit under sum or ``mean`` pooling, [B, C], or of some ``rows``.

    An undirected edge reaches both endpoints, so the exact rule adds Cov(α'_ij, α'_ji) m̃_ij m̃_ji over ordered pairs
    to the sum of node variances, which alone is the paper's rule. Directions that are drawn apart do not meet.
    """
    corrected = _corrected(sent, law)
    graph = corrected.graph
    node = _node_variance(corrected, sent.coefficients, law)
    drop, add = graph.pool(node.drop), graph.pool(node.add)
    if exact and graph.directions.together:
        covariance = sent.coefficients.covariance(law)
        drop = drop + graph.pool(_edge_cross(corrected, _per_head(covariance.edges)))
        add = add + graph.pool(_nonedge_cross(corrected, covariance.nonedges))
    if mean:
        scale = graph.sizes.clamp(min=1).to(drop.dtype).square()[:, None]
        drop, add = drop / scale, add / scale
    found = LogitVariance(drop, add)
    return found if rows is None else found.rows(rows)


@dataclass(frozen=True, eq=False)
class _Corrected:
    """The corrected messages m̃: of edges (as factors) and of non-edges (as a centre μ_i)."""

    graph: Graph
    messages: Tensor | Messages  # [n, H, C]
    factor: Tensor  # [E, H]
    mean: Tensor  # [E, H], E[α'] on edges
    away: Tensor  # [n, H, C]: messages of non-edges, for RADE-OF relative to the graph's mean
    centre: Tensor  # [k, H, C]: μ_i, likewise; zero for RADE-OFS and uncorrected views
    nodes: Nodes | None  # the k nodes whose variance is wanted, all if None

    def rows(self, operator: Operator) -> Operator:
        """Its rows at the nodes that are wanted."""
        return operator if self.nodes is None else operator.rows(self.nodes)

    def chosen(self, values: Tensor) -> Tensor:
        """Values of all nodes at those that are wanted."""
        return values if self.nodes is None else values.index_select(0, self.nodes.index)


def _some(rows: Tensor, total: int) -> Nodes | None:
    """The rows as nodes, where they are few; None where one is named twice."""
    try:
        nodes = nodes_of(rows, total)
    except ValueError:
        return None
    return nodes if nodes.few else None


def _corrected(sent: Sent, law: Law, nodes: Nodes | None = None) -> _Corrected:
    graph, messages = law.graph, sent.per_head
    m = to_anybody(messages)
    of = terms(sent.coefficients, law)
    away, centre = m, torch.zeros_like(m if nodes is None else m[: nodes.count])
    if law.variant.centres:
        # A constant added to all messages of a graph changes nothing in m_j − μ_i: take off the mean, lest sums cancel.
        away = m - graph.per_node(graph.pool(m) / graph.sizes.clamp(min=1).to(m.dtype)[:, None, None])
        columns = torch.cat([away, torch.ones_like(m[..., :1])], -1)
        nonedges = of.mean.nonedges if nodes is None else of.mean.nonedges.rows(nodes)
        sums, total = torch.split(_apply(nonedges, columns, of.edges.dim() == 2), [m.shape[-1], 1], -1)
        others = graph.nonneighbors if nodes is None else graph.nonneighbors[nodes.index]
        has = others[:, None, None] > 0  # elsewhere only rounding error is left
        centre = torch.where(has, sums / torch.where(has & (total != 0), total, 1.0), 0.0)
    return _Corrected(graph, messages, _per_head(of.edges), _per_head(of.mean.edges), away, centre, nodes)


def _node_variance(corrected: _Corrected, coefficients: Coefficients, law: Law) -> LogitVariance:
    of = coefficients.variance(law)
    edges = _edge_part(corrected, _per_head(of.edges), law)
    return LogitVariance(edges, _nonedge_part(corrected, corrected.rows(of.nonedges), of.edges.dim() == 2))


def _per_head(values: Tensor) -> Tensor:
    return values if values.dim() == 2 else values[:, None]


def _apply(operator: Operator, x: Tensor, heads: bool) -> Tensor:
    """Apply to [n, H, C], where the operator has a head axis only if ``heads``."""
    return operator.apply(x) if heads else operator.apply(x.squeeze(1)).unsqueeze(1)


def _edge_part(corrected: _Corrected, variance: Tensor, law: Law) -> Tensor:
    """Σ_edges over j, heads: F² Var m², and for several heads the covariance through the shared edge."""
    pattern = corrected.graph.pattern
    m, squares = corrected.messages, corrected.factor.square() * variance
    if isinstance(m, Messages):
        own = corrected.chosen(pattern.row_sum(squares[..., None] * m.edges.square())).sum(1)
    else:
        own = corrected.rows(Operator((Sparse(pattern, squares),))).apply(m.square()).sum(1)
    if corrected.factor.shape[1] == 1:
        return own
    odds = law.rates.p / (1.0 - law.rates.p)
    sent = (corrected.factor * corrected.mean)[..., None] * along_edges(corrected.messages, pattern)  # [E, H, C]
    between = odds * pattern.row_sum(sent.sum(1).square() - sent.square().sum(1))
    return own + corrected.chosen(between)


def _nonedge_part(corrected: _Corrected, operator: Operator, heads: bool) -> Tensor:
    """Σ_non-edges Var (m_j − μ_i)² = V m² − 2 μ V m + μ² V 1."""
    m, mu = corrected.away, corrected.centre
    columns = torch.cat([m.square(), m, torch.ones_like(m[..., :1])], -1)
    square, linear, weight = torch.split(_apply(operator, columns, heads), [m.shape[-1], m.shape[-1], 1], -1)
    out = square - 2.0 * mu * linear + mu.square() * weight
    return out.clamp(min=0).sum(1)  # rounding may leave a tiny negative where nothing is left of all pairs


def _edge_cross(corrected: _Corrected, covariance: Tensor) -> Tensor:
    """Σ_j Cov_ij F_ij F_ji m_i m_j on edges; several heads meet as sums over heads of what they send."""
    pattern = corrected.graph.pattern
    if corrected.factor.shape[1] == 1:
        m = corrected.messages
        both = (covariance * corrected.factor * corrected.factor[pattern.transposition]).squeeze(1)
        if isinstance(m, Messages):
            return pattern.row_sum(both[:, None] * (m.edges * m.edges[pattern.transposition]).squeeze(1))
        return m.squeeze(1) * Sparse(pattern, both).apply(m.squeeze(1))
    # Cov_hk = (1−π)/π E_h E_k for every pair of heads, and the diagonal of ``covariance`` tells (1−π)/π.
    product = (corrected.mean * corrected.mean[pattern.transposition]).sum(1)
    odds = covariance.sum(1) / torch.where(product != 0, product, 1.0)
    sent = (corrected.factor * corrected.mean)[..., None] * along_edges(corrected.messages, pattern)
    sent = sent.sum(1)  # [E, C]
    return pattern.row_sum(odds[:, None] * sent * sent[pattern.transposition])


def _nonedge_cross(corrected: _Corrected, covariance: Operator) -> Tensor:
    """Σ_j C_ij (m_j − μ_i)(m_i − μ_j) = m_i (C m)_i − 2 m_i μ_i (C 1)_i + μ_i (C μ)_i, summed over the graph."""
    if not covariance.parts:
        return torch.zeros_like(corrected.away[:, 0])
    m, mu = corrected.away.squeeze(1), corrected.centre.squeeze(1)
    columns = covariance.apply(torch.cat([m, mu, torch.ones_like(m[:, :1])], -1))
    to_m, to_mu, to_one = torch.split(columns, [m.shape[1], m.shape[1], 1], -1)
    return m * to_m - 2.0 * m * mu * to_one + mu * to_mu
