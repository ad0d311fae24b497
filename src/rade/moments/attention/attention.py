"""Attention (GAT): α_ij = A_ij w_ij / (c_i + Σ_k A_ik w_ik), w_ij = exp(LeakyReLU(s_j + t_i))."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import dropout, leaky_relu

from rade.graph.graph import Graph
from rade.graph.operator import Kernel, Operator, Sparse, over_nonedges
from rade.graph.sparse import Pattern
from rade.memory import remembered
from rade.moments.attention.all_nodes import AttentionKernel, AttentionSums
from rade.moments.attention.nonneighbors import sample_nonneighbors
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.inverse import expansion
from rade.moments.monte_carlo import SampledMoments, sampled_moments, sampled_variance
from rade.view.law import Law
from rade.view.view import View


class Attention(Coefficients):
    """Multi-head attention with scores s (sources) and t (targets), [n, H] (Appendix C.III, E.III).

    Weights are kept relative to the largest of the target's graph and in double precision: scores may then span 700.
    The denominator's inverse moments are the paper's second-order expansion for ``moments="exact"`` and ``"delta"``
    alike, or averages over sampled views for ``"monte-carlo"``; the sums over non-edges are exact or,
    with ``complement="sampled"``, estimated from sampled non-neighbors as in the paper.
    """

    def __init__(
        self, graph: Graph, s: Tensor, t: Tensor, slope: float = 0.2, self_loops: bool = False, drop: float = 0.0
    ) -> None:
        super().__init__(graph, s.dtype)
        self.s, self.t = s.double(), t.double()
        self.slope, self.self_loops, self.drop = slope, self_loops, drop

    def clean(self) -> Weights:
        """Softmax over neighbors (and the node itself with ``self_loops``)."""
        total = self._own + self._edge_sum
        return self._weights(total, self._edge, self._edge[:0])

    def on(self, view: View) -> Weights:
        """Softmax over the view."""
        added = self._weight_at(view.added.target, view.added.source)
        edges = self._edge * view.kept[:, None]
        total = self._own + self.graph.pattern.row_sum(edges) + view.added.row_sum(added)
        return self._weights(total, edges, added, view.added)

    def realised(self, weights: Weights) -> Weights:
        """Attention dropout, as in PyG: on what multiplies the messages, not on what is corrected for."""
        if self.drop == 0.0:
            return weights
        edges, loop, added = (dropout(w, self.drop) for w in (weights.edges, weights.loop, weights.added))
        return Weights(edges, loop, added)

    def mean(self, law: Law) -> Moments:
        """E[α'] ≈ π w φ with φ = 1/D + σ²/D³ (Eq. C.9), D and σ² without the pair's own part."""
        if law.correction.moments == "monte-carlo":
            return self._sampled(law).mean
        p, q = law.rates.p, law.rates.q
        sums = self._sums(law)
        edges = (1.0 - p) * self._edge * sums.edge_inverse(self._edge, self._target, 1)
        loop = self._own * expansion(sums.total, sums.spread, 1)
        nonedges = sums.nonedges(lambda w, index: q * sums.nonedge_inverse(w, index, 1), 1)
        return Moments(edges.to(self.dtype), torch.where(self._own > 0, loop, 0.0).to(self.dtype), nonedges)

    def variance(self, law: Law) -> Moments:
        """E[α'²] − E[α']² with E[α'²] ≈ π w² (1/D² + 3σ²/D⁴) (Eq. E.2)."""
        if law.correction.moments == "monte-carlo":
            return sampled_variance(self, law, self._sampled(law))
        p, q = law.rates.p, law.rates.q
        sums = self._sums(law)
        first = (1.0 - p) * self._edge * sums.edge_inverse(self._edge, self._target, 1)
        second = (1.0 - p) * self._edge.square() * sums.edge_inverse(self._edge, self._target, 2)
        # The two expansions are separate: their difference can fall below zero where σ² exceeds D².
        edges = (second - first.square()).clamp(min=0)

        def per_weight(w: Tensor, index: Tensor | None) -> Tensor:
            mean = q * sums.nonedge_inverse(w, index, 1)
            return q * sums.nonedge_inverse(w, index, 2) - mean.square()

        return Moments(edges.to(self.dtype), self.no_loop(), sums.nonedges(per_weight, 2))

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """1/(π T_i φ_ij) with T the clean denominator: w cancels, so that weights may be too small for α and E[α']."""
        if law.correction.moments == "monte-carlo":
            return super().ratio(law)
        sums = self._sums(law)
        clean = self._own + self._edge_sum
        inverse = torch.where(clean > 0, clean, 1.0).reciprocal()
        expected = (1.0 - law.rates.p) * sums.edge_inverse(self._edge, self._target, 1)
        edges, loop = inverse[self._target] / expected, inverse / expansion(sums.total, sums.spread, 1)
        return edges.to(self.dtype), torch.where(self._own > 0, loop, 0.0).to(self.dtype)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and the part α' of the target's other messages that it takes."""
        law, target = view.law, self._target
        edges, _ = super().response(view, pulls)
        mean = self.expected(law)
        sent = mean.edges * pulls.edges
        total = self.graph.pattern.row_sum(sent) + mean.loop * pulls.loop + pulls.nonedges
        edges = edges - self.present(law, 1) * (total[target] - sent)
        return edges, self.on(view).added * (pulls.added - total[view.added.target])

    def cap(self, law: Law) -> float | Tensor:
        """3/(1−p): above every legitimate factor of a node of degree one, below the expansion's excesses."""
        return law.correction.limit(auto=3.0 / (1.0 - law.rates.p))

    def no_loop(self) -> Tensor:
        """[n, H] zeros."""
        return torch.zeros_like(self.s, dtype=self.dtype)

    @property
    def _target(self) -> Tensor:
        return self.graph.pattern.target

    @remembered
    def _shift(self) -> Tensor:
        """log of the largest weight any node of the graph could send to i, [n, H]; constant in derivatives."""
        s, graph = self.s.detach(), self.graph
        index = graph.batch[:, None].expand_as(s)
        largest = s.new_full((graph.num_graphs, s.shape[1]), -torch.inf).scatter_reduce(0, index, s, "amax")
        return leaky_relu(largest[graph.batch] + self.t.detach(), self.slope)

    def _weight_at(self, target: Tensor, source: Tensor) -> Tensor:
        return torch.exp(leaky_relu(self.s[source] + self.t[target], self.slope) - self._shift[target])

    @remembered
    def _edge(self) -> Tensor:
        return self._weight_at(self._target, self.graph.pattern.source)

    @remembered
    def _edge_sum(self) -> Tensor:
        return self.graph.pattern.row_sum(self._edge)

    @remembered
    def _loop(self) -> Tensor:
        return torch.exp(leaky_relu(self.s + self.t, self.slope) - self._shift)

    @property
    def _own(self) -> Tensor:
        """c_i: the weight of the self-loop, zero where there is none, [n, H]."""
        return self._loop if self.self_loops else torch.zeros_like(self._loop)

    def _weights(self, total: Tensor, edges: Tensor, added: Tensor, pattern: Pattern | None = None) -> Weights:
        inverse = torch.where(total > 0, total, 1.0).reciprocal()  # a node that hears nobody has no coefficient
        at = added if pattern is None else added * inverse[pattern.target]
        parts = (edges * inverse[self._target], self._own * inverse, at)
        edge, loop, new = (part.to(self.dtype) for part in parts)
        return Weights(edge, loop, new)

    def _sampled(self, law: Law) -> SampledMoments:
        return self.once(law, "sampled", lambda: sampled_moments(self, law))

    def _sums(self, law: Law) -> DenominatorSums:
        return self.once(law, "denominator", lambda: self._denominator(law))

    def _denominator(self, law: Law) -> DenominatorSums:
        how = COMPLEMENTS[law.correction.complement](self, law)
        p, q = law.rates.p, law.rates.q
        second = self.graph.pattern.row_sum(self._edge.square())
        total = self._own + (1.0 - p) * self._edge_sum + q * how.total(1)
        spread = p * (1.0 - p) * second + q * (1.0 - q) * how.total(2)
        return DenominatorSums(law, torch.where(total > 0, total, 1.0), spread, how)


class DenominatorSums:
    """Mean and variance of c_i + Σ_k A'_ik w_ik, [n, H], and the inverse moments without one pair."""

    def __init__(self, law: Law, total: Tensor, spread: Tensor, how: ExactComplement | SampledComplement) -> None:
        self.p, self.q = law.rates.p, law.rates.q
        self.total, self.spread, self.how = total, spread, how

    def edge_inverse(self, w: Tensor, index: Tensor, power: int) -> Tensor:
        """E[(w + S_ij)^−power] for an edge: its own part leaves the sums and w enters."""
        spread = (self.spread[index] - self.p * (1.0 - self.p) * w.square()).clamp(min=0)
        return expansion(self.total[index] + self.p * w, spread, power)

    def nonedge_inverse(self, w: Tensor, index: Tensor | None, power: int) -> Tensor:
        """The same for a non-edge; smooth in w, for interpolation, hence not clamped."""
        total, spread = (self.total, self.spread) if index is None else (self.total[index], self.spread[index])
        return expansion(total + (1.0 - self.q) * w, spread - self.q * (1.0 - self.q) * w.square(), power)

    def nonedges(self, per_weight: Callable[[Tensor, Tensor | None], Tensor], power: int) -> Operator:
        """Σ over non-neighbors of w^power · per_weight(w) x_j."""
        return self.how.operator(per_weight, power, self.total)


class ExactComplement:
    """Sums over non-neighbors as all nodes − loop − edges, by sums over sorted scores."""

    def __init__(self, attention: Attention, law: Law) -> None:
        self.of = attention
        self.sums = AttentionSums(attention.s, attention.t, attention.slope, attention.graph.batch)

    def total(self, power: int) -> Tensor:
        """Σ_{j∉N(i)} w_ij^power, [n, H]."""
        of = self.of
        everyone = self.sums.power_sum(power, torch.ones_like(of.s)[..., None], of._shift).squeeze(-1)
        left = everyone - of._loop.pow(power) - of.graph.pattern.row_sum(of._edge.pow(power))
        return torch.where(of.graph.nonneighbors[:, None] > 0, left, 0.0).clamp(min=0)

    def operator(self, per_weight: Callable[[Tensor, Tensor | None], Tensor], power: int, split: Tensor) -> Operator:
        """By piecewise polynomials in w, split at the mean denominator, where the factor bends."""
        of = self.of
        kernel = AttentionKernel(self.sums, lambda w: per_weight(w, None), split.detach(), power, of._shift)
        return over_nonedges(of.graph, _Cast(kernel, of.graph, of.dtype))


class _Cast(Kernel):
    """A kernel computed in double precision, seen in the messages' precision."""

    def __init__(self, kernel: AttentionKernel, graph: Graph, dtype: torch.dtype) -> None:
        self.kernel, self.graph, self.dtype = kernel, graph, dtype

    def apply(self, x: Tensor) -> Tensor:
        return self.kernel.apply(x).to(self.dtype)

    def edges(self) -> Tensor:
        return self.kernel.at(self.graph.pattern.target, self.graph.pattern.source).to(self.dtype)

    def loops(self) -> Tensor:
        nodes = torch.arange(self.graph.num_nodes, device=self.graph.device)
        return self.kernel.at(nodes, nodes).to(self.dtype)


class SampledComplement:
    """The paper's estimate: s uniform non-neighbors per node, reused for all its pairs."""

    def __init__(self, attention: Attention, law: Law) -> None:
        self.of = attention
        self.pattern, self.times = sample_nonneighbors(attention.graph, law.correction.samples, law.generator)
        self.weight = attention._weight_at(self.pattern.target, self.pattern.source)
        self.scale = (attention.graph.nonneighbors.double() / law.correction.samples)[:, None]

    def total(self, power: int) -> Tensor:
        """|non-neighbors|/s · Σ_samples w^power."""
        return self.scale * self.pattern.row_sum(self.times[:, None] * self.weight.pow(power))

    def operator(self, per_weight: Callable[[Tensor, Tensor | None], Tensor], power: int, split: Tensor) -> Operator:
        """The sampled pairs, each standing for |non-neighbors|/s of them."""
        target = self.pattern.target
        values = self.scale[target] * self.times[:, None] * self.weight.pow(power) * per_weight(self.weight, target)
        return Operator((Sparse(self.pattern, values.to(self.of.dtype)),))


COMPLEMENTS: dict[str, Callable[[Attention, Law], ExactComplement | SampledComplement]] = {
    "exact": ExactComplement,
    "sampled": SampledComplement,
}
