"""Edge weights: on top of another aggregator (GraphConv), and counted in the degrees that normalise (GCN)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments, RateFactors, Slopes, Weights, once
from rade.moments.denoise import Observed
from rade.moments.normalised import Normalised, second_moment
from rade.moments.weighted_degrees import Condition, Found, WeightedDegrees, inverse_moments
from rade.sums import Sums, over_nonedges
from rade.views import View


class Weighted(Coefficients):
    """e_ij α_ij with fixed weights on the clean edges, in the graph's order ([E]); e may be negative and directed.

    Every added edge has the weight ``added``: a number, or one for every node [n], equal within a graph.
    """

    def __init__(self, base: Coefficients, weight: Tensor, added: float | Tensor = 1.0) -> None:
        super().__init__(base.graph, base.dtype)
        self.base = base
        self.weight = weight
        self.added = self.no_loop() + added

    def clean(self) -> Weights:
        weights = self.base.clean()
        return Weights(self.weight * weights.edges, weights.loop, weights.added)

    def on(self, view: View) -> Weights:
        """e_ij α'_ij, and the weight of additions times α'_ij."""
        weights = self.base.on(view)
        return Weights(self.weight * weights.edges, weights.loop, self.added[view.added.target] * weights.added)

    def mean(self, distribution: Distribution) -> Moments:
        """e_ij E[α'_ij]."""
        return self._scaled(self.base.expected(distribution), self.weight, self.added)

    def variance(self, distribution: Distribution) -> Moments:
        """e_ij² Var[α'_ij]."""
        return self._scaled(self.base.varying(distribution), self.weight.square(), self.added.square())

    def ratio(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """The weight cancels, so that a weight of 0 still learns."""
        return self.base.ratio(distribution)

    def denoised(self, observed: Observed) -> Sums:
        """Spurious edges weigh the mean ē on average: ē times the base's, and (e_ij − ē)/((1−p)r) on observed edges."""
        base, mean = self.base.denoised(observed), self.weight.sum() / max(self.weight.numel(), 1)
        assert base.edges is not None
        beyond = (self.weight - mean) / (observed.gain * observed.kept)  # the base's own edges carry the gain
        loop = self.base.clean().loop  # loops have no weight
        return base.scaled(mean.expand(loop.shape)) + Sums(self.graph, beyond * base.edges, (1.0 - mean) * loop)

    def response(self, view: View, slopes: Slopes) -> tuple[Tensor, Tensor]:
        """The base's, with the weight on every edge."""
        added = self.added[view.added.target] * slopes.added
        return self.base.response(view, replace(slopes, edges=self.weight * slopes.edges, added=added))

    def covariance(self, distribution: Distribution) -> Moments:
        """e_ij e_ji Cov[α'_ij, α'_ji]."""
        other = self.weight[self.graph.pattern.transposition]
        return self._scaled(self.base.covariance(distribution), self.weight * other, self.added.square())

    def rate_factors(self, distribution: Distribution) -> RateFactors | None:
        """Fixed weights do not touch the rates."""
        return self.base.rate_factors(distribution)

    def _scaled(self, moments: Moments, edges: Tensor, added: Tensor) -> Moments:
        return Moments(edges * moments.edges, moments.loop, moments.nonedges.scaled(added))


class WeightedSymmetric(Coefficients):
    """α_ij = e_ij/√(d_i d_j), d_i = loop + Σ_k A_ik e_ik, with positive weights in the graph's order.

    e [E] may be directed. An added edge weighs ``added``: a number, or one for every node [n], equal within a graph.
    Given A'_ij = 1 the endpoint degrees are independent: E[α'_ij] = π e_ij f_ij f_ji, E[α'_ij²] = π e_ij² u_ij u_ji
    with f = E[d'^−½], u = E[d'^−1], which depend on e_ij and on all other weights at the end. On a directed graph an
    edge counts at its target only, as in `Normalised`.
    """

    def __init__(
        self, graph: Graph, dtype: torch.dtype, weight: Tensor, added: float | Tensor, loop: float = 1.0
    ) -> None:
        super().__init__(graph, dtype)
        self.loop, self.weight = loop, weight.to(dtype)
        self.added = self.no_loop() + added

    def clean(self) -> Weights:
        """e_ij/√(d_i d_j) and loop/d_i."""
        root = self._root(self.graph.pattern.row_sum(self.weight))
        return Weights(self.weight * self._ends(root), self.loop * root.square(), self.nothing_added())

    def on(self, view: View) -> Weights:
        """The same with the view's degrees."""
        kept = self.weight * view.kept
        root = self._root(self.graph.pattern.row_sum(kept) + self.added * view.added.rowptr.diff())
        added = self.added[view.added.target] * root[view.added.target] * root[view.added.source]
        return Weights(kept * self._ends(root), self.loop * root.square(), added)

    def mean(self, distribution: Distribution) -> Moments:
        """(1−p) e_ij f_ij f_ji on edges, q w f_i f_j on non-edges, loop · E[1/d'] on loops."""
        p, q = distribution.rates.p, distribution.rates.q
        (edge, _), (nonedge, _), *alone = self._at_target(distribution)
        (edge_source, _), (nonedge_source, _) = self._at_source(distribution)
        nonedges = over_nonedges(self.graph, (q * self.added * nonedge)[:, None], nonedge_source[:, None])
        loop = self.loop * alone[0][1] if alone else self.no_loop()
        return Moments((1.0 - p) * self.weight * edge * edge_source, loop, nonedges)

    def variance(self, distribution: Distribution) -> Moments:
        """e² π [v_i u_j + f_i² v_j + (1−π) f_i² f_j²] with v = u − f², as in `Normalised`."""
        return self._second(distribution, self.weight)

    def covariance(self, distribution: Distribution) -> Moments:
        """α'_ji = α'_ij e_ji/e_ij: the variance with e_ij e_ji."""
        return self._second(distribution, self._back(self.weight))

    def response(self, view: View, slopes: Slopes) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what its weight in the degree of i takes from all that i receives and sends.

        The latter as one more neighbor of mean weight has it, in proportion to the pair's own weight.
        """
        mean = float(torch.cat([self.weight, self.added]).detach().mean())
        plain = Normalised(self.graph, self.dtype, 0.5, 0.5, self.loop / mean)
        edges, added = super().response(view, slopes)
        taken = plain.taken(view, slopes, self.expected(view.distribution).edges * slopes.edges)
        return edges + self.weight / mean * taken[0], added + (self.added / mean)[view.added.target] * taken[1]

    def _second(self, distribution: Distribution, other: Tensor) -> Moments:
        p, q = distribution.rates.p, distribution.rates.q
        edges, nonedges, *_ = self._at_target(distribution)
        edges_source, nonedges_source = self._at_source(distribution)
        left, right = second_moment(edges, edges_source, p)
        each = (1.0 - p) * self.weight * other * (left * right).sum(-1)
        left, right = second_moment(nonedges, nonedges_source, 1.0 - q)
        left = (q * self.added.square())[:, None] * left
        return Moments(each, self.no_loop(), over_nonedges(self.graph, left, right))

    @once
    def _at_target(self, distribution: Distribution) -> Found:
        """E[d'^−½], E[d'^−1] of targets given each edge, [E], of nodes given an addition and, with loop, nothing."""
        degrees, powers = self._degrees, (0.5, 1.0)
        wanted = [Condition(self.loop + degrees.weight, powers, by_entry=True)]
        wanted.append(Condition(self.loop + degrees.added, powers, joined=1.0))
        if self.loop > 0.0:
            wanted.append(Condition(self.loop + 0.0 * degrees.added, powers))
        found = inverse_moments(degrees, distribution, wanted)
        return [[value.to(self.dtype) for value in row] for row in found]

    def _at_source(self, distribution: Distribution) -> Found:
        """E[d'^−½], E[d'^−1] of sources given each edge, [E], and of nodes that send along an addition, [n]."""
        if not self.graph.directed:
            edges, nonedges, *_ = self._at_target(distribution)
            return [[self._back(moment) for moment in edges], nonedges]
        alone = self._alone(distribution)
        return [[moment.index_select(0, self.graph.pattern.source) for moment in alone], alone]

    @once
    def _alone(self, distribution: Distribution) -> list[Tensor]:
        """E[d'^−½; d' > 0], E[d'^−1; d' > 0] given nothing, [n]; without loop as `degree_moments` has them."""
        degrees, rates, higher = self._degrees, distribution.rates, (1.5, 2.0)
        if self.loop > 0.0:
            return self._at_target(distribution)[2]
        by_edge = Condition(degrees.weight, higher, by_entry=True)
        found = inverse_moments(degrees, distribution, [by_edge, Condition(degrees.added, higher, joined=1.0)])
        edges, others = (1.0 - rates.p) * degrees.weight, rates.q * degrees.nonneighbors * degrees.added
        return [(degrees.row_sum(edges * edge) + others * other).to(self.dtype) for edge, other in zip(*found)]

    @cached_property
    def _degrees(self) -> WeightedDegrees:
        graph = self.graph
        return WeightedDegrees(
            graph.pattern.target, self.weight.double(), self.added.double(), graph.nonneighbors.double()
        )

    def _back(self, values: Tensor) -> Tensor:
        """Values of the opposite entries, [E]."""
        return values[self.graph.pattern.transposition]

    def _ends(self, root: Tensor) -> Tensor:
        return root.index_select(0, self.graph.pattern.target) * root.index_select(0, self.graph.pattern.source)

    def _root(self, degree: Tensor) -> Tensor:
        total = degree + self.loop
        return torch.where(total > 0, total, torch.inf).rsqrt()  # a node without edges and loop has no coefficient
