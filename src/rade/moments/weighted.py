"""Edge weights on top of another aggregator (GraphConv): α_ij = e_ij · base, and one weight for all added edges."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor


from rade.moments.base import Coefficients, Moments, Pulls, RateFactors, Weights
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.rates import number
from rade.view.view import View


class Weighted(Coefficients):
    """e_ij α_ij with fixed weights on the clean edges, in the graph's order ([E]); e may be negative and directed.

    Every added edge has the weight ``added``: a number, or one for every node [n], equal within a graph.
    """

    def __init__(self, base: Coefficients, weight: Tensor, added: float | Tensor = 1.0) -> None:
        super().__init__(base.graph, base.dtype)
        self.base = base
        self.weight = weight
        self.added = self.everywhere(1.0, self.graph.num_nodes) * added

    def clean(self) -> Weights:
        weights = self.base.clean()
        return Weights(self.weight * weights.edges, weights.loop, weights.added)

    def on(self, view: View) -> Weights:
        """e_ij α'_ij, and the weight of additions times α'_ij."""
        weights = self.base.on(view)
        return Weights(self.weight * weights.edges, weights.loop, self.added[view.added.target] * weights.added)

    def mean(self, law: Law) -> Moments:
        """e_ij E[α'_ij]."""
        return self._scaled(self.base.expected(law), self.weight, self.added)

    def variance(self, law: Law) -> Moments:
        """e_ij² Var[α'_ij]."""
        return self._scaled(self.base.variance(law), self.weight.square(), self.added.square())

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """The weight cancels, so that a weight of 0 still learns."""
        return self.base.ratio(law)

    def denoised(self, observed: Observed) -> Operator:
        """Spurious edges weigh the mean ē on average: ē times the base's, and (e_ij − ē)/((1−p)r) on observed edges."""
        base, mean = self.base.denoised(observed), self.weight.sum() / max(self.weight.numel(), 1)
        kept = (1.0 - number(observed.noise.p)) * observed.trust.real
        beyond = (self.weight - mean) / (observed.gain * kept)  # the base's own edges carry the gain
        edges = [Sparse(part.pattern, beyond * part.values) for part in base.parts if isinstance(part, Sparse)]
        loop = self.base.clean().loop  # no weight stands on loops
        return base.scaled(mean.expand(loop.shape)) + Operator((*edges, Diagonal((1.0 - mean) * loop)))

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """The base's, with the weight on every edge."""
        added = self.added[view.added.target] * pulls.added
        return self.base.response(view, replace(pulls, edges=self.weight * pulls.edges, added=added))

    def covariance(self, law: Law) -> Moments:
        """e_ij e_ji Cov[α'_ij, α'_ji]."""
        other = self.weight[self.graph.pattern.transposition]
        return self._scaled(self.base.covariance(law), self.weight * other, self.added.square())

    def rate_factors(self, law: Law) -> RateFactors | None:
        """Fixed weights do not touch the rates."""
        return self.base.rate_factors(law)

    def _scaled(self, moments: Moments, edges: Tensor, added: Tensor) -> Moments:
        return Moments(edges * moments.edges, moments.loop, moments.nonedges.scaled(added))
