"""Variance of the logits under random views (Prop. 3), for every aggregator: at nodes, and pooled over graphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rade.correction import factors
from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments
from rade.sums import Messages, Sums, along_edges, to_anybody

FEW = 0.75  # below this part of all nodes, leaving the others out pays for picking rows


@dataclass(frozen=True, eq=False)
class LogitMessages:
    """What a convolution sends, pushed to the logits through the linear maps that follow it.

    Attributes:
        coefficients: by which it sums them.
        messages: [n, C] or [n, H, C]; where edges have attributes, `Messages` of nodes and edges.
    """

    coefficients: Coefficients
    messages: Tensor | Messages


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


def variance(sent: LogitMessages, distribution: Distribution, rows: Tensor | None = None) -> LogitVariance:
    """Var(δ_ic) = Σ_j m̃_ijc² Var(α'_ij) at every node, or at the nodes ``rows`` [k] (Eq. 12).

    Heads share A': on edges their covariance is (1−π)/π E_h E_k; on non-edges they are taken as independent.
    """
    few = rows is not None and rows.numel() <= FEW * distribution.graph.num_nodes
    found = _at_nodes(_corrected(sent, distribution, rows if few else None), sent.coefficients, distribution)
    return found if rows is None or few else found.rows(rows)


def pooled_variance(
    sent: LogitMessages, distribution: Distribution, mean: bool, exact: bool, rows: Tensor | None = None
) -> LogitVariance:
    """Variance of the graph logit under sum or ``mean`` pooling, [B, C], or of the graphs ``rows`` [k].

    An undirected edge reaches both endpoints, so the exact rule adds Cov(α'_ij, α'_ji) m̃_ij m̃_ji over ordered pairs
    to the sum of node variances, which alone is the paper's rule. Directions that are drawn apart do not meet.
    """
    corrected, graph = _corrected(sent, distribution), distribution.graph
    pooled = _both_ends if exact and not graph.directed else _each_end
    found = pooled(corrected, sent.coefficients, distribution)
    if mean:
        scale = graph.sizes.clamp(min=1).to(found.drop.dtype).square()[:, None]
        found = LogitVariance(found.drop / scale, found.add / scale)
    return found if rows is None else found.rows(rows)


@dataclass(frozen=True, eq=False)
class _Corrected:
    """The corrected messages m̃: of edges (as factors) and of non-edges (as a centre μ_i)."""

    graph: Graph
    messages: Tensor | Messages  # [n, H, C]
    heads: bool  # whether coefficients have a head axis
    factor: Tensor  # [E, H]
    mean: Tensor  # [E] or [E, H], E[α'] on edges
    away: Tensor  # [n, H, C]: messages of non-edges, for RADE-OF relative to the graph's mean
    averaged: Sums | None  # E[α'] on non-edges, which RADE-OF centres by
    targets: Tensor | None  # [k] nodes whose variance is wanted, all if None

    @cached_property
    def centre(self) -> Tensor:
        """μ_i, relative to the graph's mean, [k, H, C]; zero for RADE-OFS and uncorrected views."""
        m, targets = self.away, self.targets
        if self.averaged is None:
            return torch.zeros_like(m if targets is None else m[: targets.numel()])
        columns = self.sums(self.averaged, torch.cat([m, torch.ones_like(m[..., :1])], -1))
        sums, total = torch.split(columns, [m.shape[-1], 1], -1)
        others = self.graph.nonneighbors if targets is None else self.graph.nonneighbors.index_select(0, targets)
        has = others[:, None, None] > 0  # elsewhere only rounding error is left
        return torch.where(has, sums / torch.where(has & (total != 0), total, 1.0), 0.0)

    def sums(self, weights: Sums, x: Tensor) -> Tensor:
        """Weighted sums of x [n, H, F] at the targets, [k, H, F]."""
        at = weights if self.targets is None else weights.at(self.targets)
        return at.apply(x) if self.heads else at.apply(x.squeeze(1)).unsqueeze(1)

    def received(self, along: Tensor) -> Tensor:
        """Σ over the edges of each target of values [E, ...], [k, ...]."""
        total = self.graph.pattern.row_sum(along)
        return total if self.targets is None else total.index_select(0, self.targets)


def _corrected(sent: LogitMessages, distribution: Distribution, targets: Tensor | None = None) -> _Corrected:
    """What the last convolution sends, as it varies: at every node, or at some."""
    graph, messages = distribution.graph, with_heads(sent.messages)
    m, found = to_anybody(messages), factors(sent.coefficients, distribution)
    heads, factor, mean = found.edges.dim() == 2, _per_head(found.edges), found.mean.edges
    if not distribution.variant.centres:
        return _Corrected(graph, messages, heads, factor, mean, m, None, targets)
    # A constant added to all messages of a graph changes nothing in m_j − μ_i: take off the mean, lest sums cancel.
    away = m - graph.per_node(graph.pool(m) / graph.sizes.clamp(min=1).to(m.dtype)[:, None, None])
    return _Corrected(graph, messages, heads, factor, mean, away, found.mean.nonedges, targets)


def _at_nodes(corrected: _Corrected, coefficients: Coefficients, distribution: Distribution) -> LogitVariance:
    """Var(δ_ic) of corrected messages."""
    moments = coefficients.varying(distribution)
    edges = _edge_part(corrected, _per_head(moments.edges), distribution)
    return LogitVariance(edges, _nonedge_part(corrected, moments.nonedges))


def _edge_part(corrected: _Corrected, moments: Tensor, distribution: Distribution) -> Tensor:
    """Σ_edges over j, heads: F² Var m², and for several heads the covariance through the shared edge."""
    m, squares = corrected.messages, corrected.factor.square() * moments
    if isinstance(m, Messages):
        own = corrected.received(squares[..., None] * m.edges.square()).sum(1)
    else:
        weights = Sums(corrected.graph, squares if corrected.heads else squares.squeeze(1))
        own = corrected.sums(weights, m.square()).sum(1)
    if corrected.factor.shape[1] == 1:
        return own
    odds = distribution.rates.p / (1.0 - distribution.rates.p)
    along = _mean_along_edges(corrected)
    return own + odds * corrected.received(along.sum(1).square() - along.square().sum(1))


def _nonedge_part(corrected: _Corrected, moments: Sums) -> Tensor:
    """Σ_non-edges Var (m_j − μ_i)² = V m² − 2 μ V m + μ² V 1."""
    m, mu = corrected.away, corrected.centre
    columns = corrected.sums(moments, torch.cat([m.square(), m, torch.ones_like(m[..., :1])], -1))
    square, linear, weight = torch.split(columns, [m.shape[-1], m.shape[-1], 1], -1)
    out = square - 2.0 * mu * linear + mu.square() * weight
    return out.clamp(min=0).sum(1)  # rounding may leave a tiny negative where nothing is left of all pairs


def _each_end(corrected: _Corrected, coefficients: Coefficients, distribution: Distribution) -> LogitVariance:
    """Sums of node variances."""
    node, graph = _at_nodes(corrected, coefficients, distribution), corrected.graph
    return LogitVariance(graph.pool(node.drop), graph.pool(node.add))


def _both_ends(corrected: _Corrected, coefficients: Coefficients, distribution: Distribution) -> LogitVariance:
    """With the covariance of both directions of a pair."""
    graph, moments = corrected.graph, coefficients.varying(distribution)
    covariance = coefficients.covariance(distribution)
    if covariance is moments and not isinstance(corrected.messages, Messages):
        return _mutual(corrected, moments)
    node = _each_end(corrected, coefficients, distribution)
    drop = node.drop + graph.pool(_edge_cross(corrected, _per_head(covariance.edges)))
    return LogitVariance(drop, node.add + graph.pool(_nonedge_cross(corrected, covariance.nonedges)))


def _mutual(corrected: _Corrected, moments: Moments) -> LogitVariance:
    """½ Σ_ij Var_ij (m̃_ij + m̃_ji)² where α'_ij = α'_ji, so that F_ij = F_ji.

    Ends add up to F_ij (m_i + m_j) on edges and to z_i + z_j with z = m − μ on non-edges.
    """
    graph, m = corrected.graph, corrected.messages
    assert isinstance(m, Tensor)
    edges = Sums(graph, corrected.factor.squeeze(1).square() * moments.edges)
    away = (corrected.away - corrected.centre).squeeze(1)
    # Rounding may leave a tiny negative where nothing is left of all pairs.
    return LogitVariance(_of_pairs(edges, m.squeeze(1)), _of_pairs(moments.nonedges, away).clamp(min=0))


def _of_pairs(weights: Sums, z: Tensor) -> Tensor:
    """½ Σ_ij w_ij (z_i + z_j)² = Σ_i z_i ((w 1)_i z_i + (w z)_i) of every graph, for symmetric w."""
    columns = weights.apply(torch.cat([z, torch.ones_like(z[:, :1])], 1))
    return weights.graph.pool(z * torch.addcmul(columns[:, :-1], columns[:, -1:], z))


def _edge_cross(corrected: _Corrected, covariance: Tensor) -> Tensor:
    """Σ_j Cov_ij F_ij F_ji m_i m_j on edges; several heads meet as sums over heads of what they send."""
    pattern, m = corrected.graph.pattern, corrected.messages
    if corrected.factor.shape[1] > 1:
        # Cov_hk = (1−π)/π E_h E_k for every pair of heads, and the diagonal of ``covariance`` tells (1−π)/π.
        both = (corrected.mean * corrected.mean[pattern.transposition]).sum(1)
        odds = covariance.sum(1) / torch.where(both != 0, both, 1.0)
        along = _mean_along_edges(corrected).sum(1)  # [E, C]
        return pattern.row_sum(odds[:, None] * along * along[pattern.transposition])
    weights = covariance * corrected.factor * corrected.factor[pattern.transposition]
    if isinstance(m, Messages):
        return pattern.row_sum((weights[..., None] * m.edges * m.edges[pattern.transposition]).squeeze(1))
    return (m * corrected.sums(Sums(corrected.graph, weights if corrected.heads else weights.squeeze(1)), m)).squeeze(1)


def _nonedge_cross(corrected: _Corrected, covariance: Sums) -> Tensor:
    """Σ_j C_ij (m_j − μ_i)(m_i − μ_j) = m_i (C m)_i − 2 m_i μ_i (C 1)_i + μ_i (C μ)_i, summed over the graph."""
    m, mu = corrected.away, corrected.centre
    columns = corrected.sums(covariance, torch.cat([m, mu, torch.ones_like(m[..., :1])], -1))
    to_m, to_mu, to_one = torch.split(columns, [m.shape[-1], m.shape[-1], 1], -1)
    return (m * to_m - 2.0 * m * mu * to_one + mu * to_mu).sum(1)


def _mean_along_edges(corrected: _Corrected) -> Tensor:
    """F E[α'] m, [E, H, C]."""
    along = along_edges(corrected.messages, corrected.graph.pattern)
    return (corrected.factor * _per_head(corrected.mean))[..., None] * along


def with_heads(messages: Tensor | Messages) -> Tensor | Messages:
    """Messages with a head axis, [n, H, C]."""
    if isinstance(messages, Messages):
        nodes, edges = messages.nodes, messages.edges
        return messages if nodes.dim() == 3 else Messages(nodes[:, None], edges[:, None])
    return messages if messages.dim() == 3 else messages[:, None]


def _per_head(values: Tensor) -> Tensor:
    """Coefficients [E] or [E, H] with a head axis."""
    return values if values.dim() == 2 else values[:, None]
