"""Attention (GAT): α_ij = A_ij w_ij / (c_i + Σ_k A_ik w_ik), w_ij = exp(LeakyReLU(s_j + t_i))."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import dropout

from rade.graph.graph import Graph
from rade.graph.operator import Operator
from rade.memory import remembered
from rade.moments.attention.denoised import denoised_attention
from rade.moments.attention.denominator import Denominator, denominator, is_exact
from rade.moments.attention.scores import PairScores, Scores
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.monte_carlo import SampledMoments, sampled_moments, sampled_variance
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.view import View

RAREST = 2.0**-100  # least E[α']/α: who is never heard (q = 1 and far heavier non-neighbors) has no larger factor
FAINTEST = 1e-290  # coefficients below it are lost in any sum: their factor is 1


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
        self.scores: PairScores = Scores(graph, s, t, slope, self_loops)
        self.drop = drop

    def clean(self) -> Weights:
        """Softmax over neighbors (and the node itself with ``self_loops``)."""
        edges, loop = self._clean
        return self._weights(edges, loop, edges[:0])

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
        found = self._denominator(law)
        edges, loop = (1.0 - law.rates.p) * self._edge_mean(law), found.loop_mean()
        return Moments(edges.to(self.dtype), loop.to(self.dtype), found.nonedge_mean(self.dtype))

    def variance(self, law: Law) -> Moments:
        """E[α'²] − E[α']²."""
        if law.correction.moments == "monte-carlo":
            return sampled_variance(self, law, self._sampled(law))
        found = self._denominator(law)
        return Moments(found.edge_variance().to(self.dtype), self.no_loop(), found.nonedge_variance(self.dtype))

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """α/E[α'], in double precision."""
        if law.correction.moments == "monte-carlo":
            return super().ratio(law)
        edges, loop = self._clean
        edges = _quotient(edges, self._edge_mean(law)) / (1.0 - law.rates.p)
        return edges.to(self.dtype), _quotient(loop, self._denominator(law).loop_mean()).to(self.dtype)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and the part α' of the target's other messages that it takes."""
        law, target = view.law, self.graph.pattern.target
        edges, _ = super().response(view, pulls)
        mean = self.expected(law)
        sent = mean.edges * pulls.edges
        total = self.graph.pattern.row_sum(sent) + mean.loop * pulls.loop + pulls.nonedges
        edges = edges - self.present(law, 1) * (total[target] - sent)
        return edges, self.on(view).added * (pulls.added - total[view.added.target])

    def denoised(self, observed: Observed) -> Operator:
        """Numerator and denominator without spurious edges in the mean."""
        return denoised_attention(self.scores, observed, self.dtype)

    def is_exact(self, law: Law) -> bool:
        """Not where pairs of features have scores and are too many to be listed."""
        return is_exact(self.scores, law)

    def cap(self, law: Law) -> float | Tensor:
        """3/(1−p) for the expansion: above every legitimate factor of a node of degree one, below its excesses."""
        return law.correction.limit() if self.is_exact(law) else law.correction.limit(auto=3.0 / (1.0 - law.rates.p))

    def no_loop(self) -> Tensor:
        """[n, H] zeros."""
        return torch.zeros_like(self.scores.loop, dtype=self.dtype)

    @remembered
    def _clean(self) -> tuple[Tensor, Tensor]:
        """α of edges [E, H] and loops [n, H] in double precision."""
        scores, pattern = self.scores, self.graph.pattern
        edges, own = torch.exp(scores.edge - scores.largest[pattern.target]), torch.exp(scores.own - scores.largest)
        inverse = 1.0 / _positive(own + pattern.row_sum(edges))
        return edges * inverse[pattern.target], own * inverse

    def _weights(self, edges: Tensor, loop: Tensor, added: Tensor) -> Weights:
        return Weights(edges.to(self.dtype), loop.to(self.dtype), added.to(self.dtype))

    def _sampled(self, law: Law) -> SampledMoments:
        return self.once(law, "sampled", lambda: sampled_moments(self, law))

    def _denominator(self, law: Law) -> Denominator:
        return self.once(law, "denominator", lambda: denominator(self.scores, law))

    def _edge_mean(self, law: Law) -> Tensor:
        return self.once(law, "edge mean", lambda: self._denominator(law).edge_mean())


class ScoredAttention(Attention):
    """The same with other scores than s_j + t_i: those of edges with attributes, or functions of pairs."""

    def __init__(self, scores: PairScores, dtype: torch.dtype, drop: float = 0.0) -> None:
        Coefficients.__init__(self, scores.graph, dtype)
        self.scores, self.drop = scores, drop


def _positive(total: Tensor) -> Tensor:
    """A node that hears nobody has no coefficient: divide its zeros by one."""
    return torch.where(total > 0, total, 1.0)


def _quotient(clean: Tensor, mean: Tensor) -> Tensor:
    """α/E[α'], finite in value and derivative at any scores; 0 where there is no coefficient."""
    mean = torch.maximum(mean, RAREST * clean)
    heard = mean > FAINTEST
    return torch.where(heard, clean / torch.where(heard, mean, 1.0), (clean > 0).to(clean))
