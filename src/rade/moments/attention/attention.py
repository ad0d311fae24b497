"""Attention (GAT): α_ij = A_ij w_ij / (c_i + Σ_k A_ik w_ik), w_ij = exp(LeakyReLU(s_j + t_i))."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout

from rade.graph.graph import Graph
from rade.memory import remembered
from rade.moments.attention.denominator import Denominator, denominator
from rade.moments.attention.scores import Scores
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.monte_carlo import SampledMoments, sampled_moments, sampled_variance
from rade.view.law import Law
from rade.view.view import View

RAREST = 2.0**-100  # of E[M/X]: a neighbor that is never heard (q = 1, infinitely heavy non-neighbors) has no factor


class Attention(Coefficients):
    """Multi-head attention with scores s (sources) and t (targets), [n, H] (Appendix C.III, E.III).

    ``moments="exact"`` is the exact law of the random denominator to 1e-5, at any scores; ``"delta"`` the paper's
    second-order expansion, ``complement="sampled"`` the same with sums over non-neighbors estimated from a sample, as
    in the paper; ``"monte-carlo"`` averages over sampled views.
    """

    def __init__(
        self, graph: Graph, s: Tensor, t: Tensor, slope: float = 0.2, self_loops: bool = False, drop: float = 0.0
    ) -> None:
        super().__init__(graph, s.dtype)
        self.scores, self.drop = Scores(graph, s, t, slope, self_loops), drop

    def clean(self) -> Weights:
        """Softmax over neighbors (and the node itself with ``self_loops``)."""
        edges, own = self._relative
        inverse = 1.0 / _positive(own + self.graph.pattern.row_sum(edges))
        edges = edges * inverse[self.graph.pattern.target]
        return self._weights(edges, own * inverse, edges[:0])

    def on(self, view: View) -> Weights:
        """Softmax over the view."""
        scores, target = self.scores, self.graph.pattern.target
        edges = torch.where(view.kept[:, None], scores.edge, -torch.inf)
        added = scores.at(view.added.target, view.added.source)
        top = scores.heard(edges, added, view.added)
        edges, added = torch.exp(edges - top[target]), torch.exp(added - top[view.added.target])
        own = torch.exp(scores.own - top)
        total = own + self.graph.pattern.row_sum(edges) + view.added.row_sum(added)
        inverse = 1.0 / _positive(total)
        return self._weights(edges * inverse[target], own * inverse, added * inverse[view.added.target])

    def realised(self, weights: Weights) -> Weights:
        """Attention dropout, as in PyG: on what multiplies the messages, not on what is corrected for."""
        if self.drop == 0.0:
            return weights
        edges, loop, added = (dropout(w, self.drop) for w in (weights.edges, weights.loop, weights.added))
        return Weights(edges, loop, added)

    def mean(self, law: Law) -> Moments:
        """E[α'] = π w E[1/X], X without the pair's own part."""
        if law.correction.moments == "monte-carlo":
            return self._sampled(law).mean
        found, (edges, own) = self._denominator(law), self._relative
        edges, loop = (1.0 - law.rates.p) * edges * self._edge_inverse(law), own * found.loop_inverse()
        return Moments(edges.to(self.dtype), loop.to(self.dtype), found.nonedge_mean(self.dtype))

    def variance(self, law: Law) -> Moments:
        """E[α'²] − E[α']²."""
        if law.correction.moments == "monte-carlo":
            return sampled_variance(self, law, self._sampled(law))
        found = self._denominator(law)
        return Moments(found.edge_variance().to(self.dtype), self.no_loop(), found.nonedge_variance(self.dtype))

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """1/(π T_i E[1/X]) with T the clean denominator: w cancels, so weights may be too small for α and E[α']."""
        if law.correction.moments == "monte-carlo":
            return super().ratio(law)
        edges, own = self._relative
        clean = _positive(own + self.graph.pattern.row_sum(edges))
        heard = self._edge_inverse(law).clamp(min=RAREST) * clean[self.graph.pattern.target]
        loop = 1.0 / (self._denominator(law).loop_inverse().clamp(min=RAREST) * clean)
        edges = 1.0 / ((1.0 - law.rates.p) * heard)
        return edges.to(self.dtype), torch.where(own > 0, loop, 0.0).to(self.dtype)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and the part α' of the target's other messages that it takes."""
        law, target = view.law, self.graph.pattern.target
        edges, _ = super().response(view, pulls)
        mean = self.expected(law)
        sent = mean.edges * pulls.edges
        total = self.graph.pattern.row_sum(sent) + mean.loop * pulls.loop + pulls.nonedges
        edges = edges - self.present(law, 1) * (total[target] - sent)
        return edges, self.on(view).added * (pulls.added - total[view.added.target])

    def cap(self, law: Law) -> float | Tensor:
        """3/(1−p) for the expansion: above every legitimate factor of a node of degree one, below its excesses."""
        exact = law.correction.moments == "exact" and law.correction.complement == "exact"
        return law.correction.limit() if exact else law.correction.limit(auto=3.0 / (1.0 - law.rates.p))

    def no_loop(self) -> Tensor:
        """[n, H] zeros."""
        return torch.zeros_like(self.scores.s, dtype=self.dtype)

    @remembered
    def _relative(self) -> tuple[Tensor, Tensor]:
        """Weights of edges [E, H] and loops [n, H], relative to the largest that their target hears."""
        scores = self.scores
        edges = torch.exp(scores.edge - scores.largest[self.graph.pattern.target])
        return edges, torch.exp(scores.own - scores.largest)

    def _weights(self, edges: Tensor, loop: Tensor, added: Tensor) -> Weights:
        return Weights(edges.to(self.dtype), loop.to(self.dtype), added.to(self.dtype))

    def _sampled(self, law: Law) -> SampledMoments:
        return self.once(law, "sampled", lambda: sampled_moments(self, law))

    def _denominator(self, law: Law) -> Denominator:
        return self.once(law, "denominator", lambda: denominator(self.scores, law))

    def _edge_inverse(self, law: Law) -> Tensor:
        return self.once(law, "edge inverse", lambda: self._denominator(law).edge_inverse())


def _positive(total: Tensor) -> Tensor:
    """A node that hears nobody has no coefficient: divide its zeros by one."""
    return torch.where(total > 0, total, 1.0)
