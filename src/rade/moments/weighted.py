"""Edge weights on top of another aggregator (GraphConv): α_ij = e_ij · base; added edges weigh 1."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rade.moments.base import Coefficients, Moments, Pulls, RateFactors, Weights
from rade.view.law import Law
from rade.view.view import View


class Weighted(Coefficients):
    """e_ij α_ij with fixed weights on the clean edges, in the graph's order ([E]); e may be negative and directed."""

    def __init__(self, base: Coefficients, weight: Tensor) -> None:
        super().__init__(base.graph, base.dtype)
        self.base = base
        self.weight = weight

    def clean(self) -> Weights:
        """e_ij α_ij."""
        weights = self.base.clean()
        return Weights(self.weight * weights.edges, weights.loop, weights.added)

    def on(self, view: View) -> Weights:
        """e_ij α'_ij, and α'_ij on added edges."""
        weights = self.base.on(view)
        return Weights(self.weight * weights.edges, weights.loop, weights.added)

    def mean(self, law: Law) -> Moments:
        """e_ij E[α'_ij]."""
        return self._scaled(self.base.expected(law), self.weight)

    def variance(self, law: Law) -> Moments:
        """e_ij² Var[α'_ij]."""
        return self._scaled(self.base.variance(law), self.weight.square())

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """The weight cancels, so that a weight of 0 still learns."""
        return self.base.ratio(law)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """The base's, with the weight on every edge."""
        return self.base.response(view, replace(pulls, edges=self.weight * pulls.edges))

    def covariance(self, law: Law) -> Moments:
        """e_ij e_ji Cov[α'_ij, α'_ji]."""
        other = self.weight[self.graph.pattern.transposition]
        return self._scaled(self.base.covariance(law), self.weight * other)

    def rate_factors(self, law: Law) -> RateFactors | None:
        """Fixed weights do not touch the rates."""
        return self.base.rate_factors(law)

    @staticmethod
    def _scaled(moments: Moments, factor: Tensor) -> Moments:
        return Moments(factor * moments.edges, moments.loop, moments.nonedges)
