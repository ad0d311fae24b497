"""Variance of pooled logits: an undirected edge reaches the graph's logit by both of its ends."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.control.variance import Corrected, LogitVariance, corrected_messages, node_variance, per_head
from rade.graph.graph import Graph
from rade.graph.messages import Messages, along_edges
from rade.graph.operator import Operator, Sparse
from rade.moments.base import Coefficients, Moments, Sent
from rade.view.law import Law


def pooled_variance(sent: Sent, law: Law, mean: bool, exact: bool, rows: Tensor | None = None) -> LogitVariance:
    """Variance of the graph logit under sum or ``mean`` pooling, [B, C], or of some ``rows``.

    An undirected edge reaches both endpoints, so the exact rule adds Cov(α'_ij, α'_ji) m̃_ij m̃_ji over ordered pairs
    to the sum of node variances, which alone is the paper's rule. Directions that are drawn apart do not meet.
    """
    corrected, coefficients = corrected_messages(sent, law), sent.coefficients
    graph = corrected.graph
    meet = exact and graph.directions.together
    found = _both_ends(corrected, coefficients, law) if meet else _added_up(corrected, coefficients, law)
    if mean:
        scale = graph.sizes.clamp(min=1).to(found.drop.dtype).square()[:, None]
        found = LogitVariance(found.drop / scale, found.add / scale)
    return found if rows is None else found.rows(rows)


def _added_up(corrected: Corrected, coefficients: Coefficients, law: Law) -> LogitVariance:
    node = node_variance(corrected, coefficients, law)
    return LogitVariance(corrected.graph.pool(node.drop), corrected.graph.pool(node.add))


def _both_ends(corrected: Corrected, coefficients: Coefficients, law: Law) -> LogitVariance:
    graph, covariance, variance = corrected.graph, coefficients.covariance(law), coefficients.spread(law)
    if covariance is variance and not isinstance(corrected.messages, Messages):
        return _mutual(corrected, variance)
    node = _added_up(corrected, coefficients, law)
    drop = node.drop + graph.pool(_edge_cross(corrected, per_head(covariance.edges)))
    return LogitVariance(drop, node.add + graph.pool(_nonedge_cross(corrected, covariance.nonedges)))


def _mutual(corrected: Corrected, variance: Moments) -> LogitVariance:
    """½ Σ_ij Var_ij (m̃_ij + m̃_ji)² where α'_ij = α'_ji, so that F_ij = F_ji.

    Ends add up to F_ij (m_i + m_j) on edges and to z_i + z_j with z = m − μ on non-edges.
    """
    graph, m = corrected.graph, corrected.messages
    assert isinstance(m, Tensor)
    edges = Operator((Sparse(graph.pattern, corrected.factor.squeeze(1).square() * variance.edges),))
    away = (corrected.away - corrected.centre).squeeze(1)
    # Rounding may leave a tiny negative where nothing is left of all pairs.
    return LogitVariance(_of_sums(edges, m.squeeze(1), graph), _of_sums(variance.nonedges, away, graph).clamp(min=0))


def _of_sums(weights: Operator, z: Tensor, graph: Graph) -> Tensor:
    """½ Σ_ij w_ij (z_i + z_j)² = Σ_i z_i ((w 1)_i z_i + (w z)_i) of every graph, for symmetric w."""
    columns = weights.apply(torch.cat([z, torch.ones_like(z[:, :1])], 1))
    return graph.pool(z * torch.addcmul(columns[:, :-1], columns[:, -1:], z))


def _edge_cross(corrected: Corrected, covariance: Tensor) -> Tensor:
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


def _nonedge_cross(corrected: Corrected, covariance: Operator) -> Tensor:
    """Σ_j C_ij (m_j − μ_i)(m_i − μ_j) = m_i (C m)_i − 2 m_i μ_i (C 1)_i + μ_i (C μ)_i, summed over the graph."""
    if not covariance.parts:
        return torch.zeros_like(corrected.away[:, 0])
    m, mu = corrected.away.squeeze(1), corrected.centre.squeeze(1)
    columns = covariance.apply(torch.cat([m, mu, torch.ones_like(m[:, :1])], -1))
    to_m, to_mu, to_one = torch.split(columns, [m.shape[1], m.shape[1], 1], -1)
    return m * to_m - 2.0 * m * mu * to_one + mu * to_mu
