"""Mean aggregation (GraphSAGE): α_ij = A_ij / d_i."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from rade.graph.operator import LowRank, Operator, over_nonedges
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.degrees import EDGE, NONEDGE, degree_moments, one_more
from rade.moments.denoising import signed_pairs
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.view import View


class Mean(Coefficients):
    """α_ij = 1/d_i: only the target's degree is random, E[α'] = π E[1/X], E[α'²] = π E[1/X²]."""

    @property
    def key(self) -> Hashable | None:
        """The graph says it all."""
        return (Mean, self.dtype) if type(self) is Mean else None  # a subclass must make its own promise

    def clean(self) -> Weights:
        """1/d_i."""
        inverse = self._inverse(self.graph.degree)
        return Weights(inverse[self.graph.pattern.target], self.no_loop(), self.nothing_added())

    def on(self, view: View) -> Weights:
        """1/d'_i."""
        degree = self.graph.pattern.row_sum(view.kept.long()) + view.added.rowptr.diff()
        inverse = self._inverse(degree)
        return Weights(inverse[self.graph.pattern.target] * view.kept, self.no_loop(), inverse[view.added.target])

    def mean(self, law: Law) -> Moments:
        """(1−p) E[1/X] on edges, q E[1/X] on non-edges."""
        edge, nonedge = self._moments(law, EDGE)[0], self._moments(law, NONEDGE)[0]
        return self._by_target((1.0 - law.rates.p) * edge, law.rates.q * nonedge)

    def variance(self, law: Law) -> Moments:
        """π [(U − F²) + (1−π) F²] with F = E[1/X], U = E[1/X²]."""
        p, q = law.rates.p, law.rates.q
        f, u = self._moments(law, EDGE)
        edge = (1.0 - p) * ((u - f.square()) + p * f.square())
        f, u = self._moments(law, NONEDGE)
        nonedge = q * ((u - f.square()) + (1.0 - q) * f.square())
        return self._by_target(edge, nonedge)

    def denoised(self, observed: Observed) -> Operator:
        """Signed pairs over the estimated clean degree of the target."""
        inverse = self._inverse(observed.degree)
        kernel = LowRank(self.graph, inverse[:, None], torch.ones_like(inverse)[:, None])
        return signed_pairs(observed, kernel, observed.excess.to(self.dtype))

    def covariance(self, law: Law) -> Moments:
        """π(1−π) F_i F_j: given the edge, the endpoint degrees are independent."""
        f, _ = self._moments(law, NONEDGE)
        q = law.rates.q
        kernel = LowRank(self.graph, q * (1.0 - q) * f[:, None], f[:, None], by_degree=True)
        edges = super().covariance(law).edges
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, kernel))

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what one more neighbor takes from the target's other messages."""
        law, of = view.law, self.graph.degree_classes[2]
        edges, added = super().response(view, pulls)
        sent = self.expected(law).edges * pulls.edges
        total = self.graph.pattern.row_sum(sent) + pulls.nonedges
        at_edge, at_nonedge = (
            one_more(law, 1.0, spent, 1.0, present).to(self.dtype).index_select(0, of)
            for spent, present in (((2, 0), 1.0 - law.rates.p), ((1, 1), law.rates.q))
        )
        target = self.graph.pattern.target
        edges = edges + at_edge[target] * (total[target] - sent)
        return edges, added + (at_nonedge * total)[view.added.target]

    def _moments(self, law: Law, given: tuple[int, int]) -> list[Tensor]:
        """E[1/d'] and E[1/d'²] given that the pair is present, [U]."""
        args = (law, 1.0, given, (1.0, 2.0), self.dtype)
        return self.once(law, given, lambda: degree_moments(*args))

    def _by_target(self, edge: Tensor, nonedge: Tensor) -> Moments:
        """Weights that depend on the target's degree class alone, [U]."""
        kernel = LowRank(self.graph, nonedge[:, None], torch.ones_like(nonedge)[:, None], by_degree=True)
        target, _, pair = self.graph.edge_classes
        edges = edge.index_select(0, target).index_select(0, pair)
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, kernel))

    def _inverse(self, degree: Tensor) -> Tensor:
        return degree.clamp(min=1).to(self.dtype).reciprocal()  # a node without neighbors has no coefficient
