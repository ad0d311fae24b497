"""Sum aggregation (GIN): α_ij = A_ij."""

from __future__ import annotations

from collections.abc import Hashable

from torch import Tensor

from rade.graph.operator import LowRank, Operator, over_nonedges
from rade.moments.base import Coefficients, Moments, RateFactors, Weights
from rade.moments.denoising import signed_pairs
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.view import View


class Sum(Coefficients):
    """α_ij = A_ij, so E[α'] is 1−p on edges and q on non-edges (Appendix C.I, E.I)."""

    @property
    def key(self) -> Hashable | None:
        """The graph says it all."""
        return (Sum, self.dtype) if type(self) is Sum else None  # a subclass must make its own promise

    def clean(self) -> Weights:
        """1 on every edge."""
        return Weights(self.everywhere(1.0, self.graph.pattern.size), self.no_loop(), self.nothing_added())

    def on(self, view: View) -> Weights:
        """1 on every edge of the view."""
        return Weights(view.kept.to(self.dtype), self.no_loop(), self.everywhere(1.0, view.added.size))

    def mean(self, law: Law) -> Moments:
        """1−p and q."""
        return self._constant(1.0 - law.rates.p, law.rates.q)

    def variance(self, law: Law) -> Moments:
        """p(1−p) and q(1−q)."""
        p, q = law.rates.p, law.rates.q
        return self._constant(p * (1.0 - p), q * (1.0 - q))

    def denoised(self, observed: Observed) -> Operator:
        """(A'_ij − q)/(1−p−q): unbiased."""
        ones = self.everywhere(1.0, self.graph.num_nodes)
        return signed_pairs(observed, ones, ones)

    def covariance(self, law: Law) -> Moments:
        """Both directions are the same variable: its variance."""
        return self.spread(law)

    def rate_factors(self, law: Law) -> RateFactors | None:
        """p/(1−p) and q(1−q) (Appendix G); without correction the edge part is p(1−p)."""
        if law.correction.cap not in ("auto", "none"):
            return None
        power = -1 if law.variant.corrects else 1
        return lambda rates: (rates.p * (1.0 - rates.p) ** power, rates.q * (1.0 - rates.q))

    def _constant(self, edge: float | Tensor, nonedge: float | Tensor) -> Moments:
        ones = self.everywhere(1.0, self.graph.num_nodes)
        kernel = LowRank(self.graph, (ones * nonedge)[:, None], ones[:, None])
        edges = self.everywhere(edge, self.graph.pattern.size)
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, kernel))
