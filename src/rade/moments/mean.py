"""Mean aggregation (GraphSAGE): α_ij = A_ij / d_i, with the loop counted in d where there is one (Cluster-GCN)."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import Diagonal, LowRank, Operator, over_nonedges
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.degrees import EDGE, LOOP, NONEDGE, degree_moments, degree_tables, one_more
from rade.moments.denoising import signed_pairs
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.view import View


class Mean(Coefficients):
    """α_ij = 1/d_i: only the target's degree is random, E[α'] = π E[1/X], E[α'²] = π E[1/X²].

    ``loop`` is what a self-loop counts in d_i = loop + degree, 0 for none; its own coefficient is ``gain`` · loop/d_i.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, loop: float = 0.0, gain: float = 1.0) -> None:
        super().__init__(graph, dtype)
        self.loop, self.gain = loop, gain

    @property
    def key(self) -> Hashable | None:
        """One per kind of loop."""
        return (Mean, self.dtype, self.loop, self.gain) if type(self) is Mean else None  # as in Sum

    def clean(self) -> Weights:
        """1/d_i."""
        inverse = self._inverse(self.graph.degree)
        return Weights(inverse[self.graph.pattern.target], self._of_loop(inverse), self.nothing_added())

    def on(self, view: View) -> Weights:
        """1/d'_i."""
        degree = self.graph.pattern.row_sum(view.kept.long()) + view.added.rowptr.diff()
        inverse = self._inverse(degree)
        kept = inverse[self.graph.pattern.target] * view.kept
        return Weights(kept, self._of_loop(inverse), inverse[view.added.target])

    def mean(self, law: Law) -> Moments:
        """(1−p) E[1/X] on edges, q E[1/X] on non-edges, gain · loop · E[1/d'] on loops."""
        edge, nonedge = self._moments(law, EDGE)[0], self._moments(law, NONEDGE)[0]
        return self._by_target((1.0 - law.rates.p) * edge, law.rates.q * nonedge, self._mean_loop(law))

    def variance(self, law: Law) -> Moments:
        """π [(U − F²) + (1−π) F²] with F = E[1/X], U = E[1/X²]."""
        p, q = law.rates.p, law.rates.q
        f, u = self._moments(law, EDGE)
        edge = (1.0 - p) * ((u - f.square()) + p * f.square())
        f, u = self._moments(law, NONEDGE)
        nonedge = q * ((u - f.square()) + (1.0 - q) * f.square())
        return self._by_target(edge, nonedge, self.no_loop())

    def denoised(self, observed: Observed) -> Operator:
        """Signed pairs over the estimated clean degree of the target."""
        inverse = self._inverse(observed.degree)
        pairs = signed_pairs(observed, inverse, torch.ones_like(inverse), observed.excess.to(self.dtype))
        return pairs + Operator((Diagonal(self._of_loop(inverse)),)) if self.loop > 0.0 else pairs

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
            one_more(law, self.loop + 1.0, spent, 1.0, present).to(self.dtype).index_select(0, of)
            for spent, present in (((2, 0), 1.0 - law.rates.p), ((1, 1), law.rates.q))
        )
        loop_at_edge, loop_at_nonedge = (self._loop_change(law, given) * pulls.loop for given in (EDGE, NONEDGE))
        target = self.graph.pattern.target
        edges = edges + at_edge[target] * (total[target] - sent) + loop_at_edge[target]
        return edges, added + (at_nonedge * total + loop_at_nonedge)[view.added.target]

    def _moments(self, law: Law, given: tuple[int, int]) -> tuple[Tensor, ...]:
        """E[1/d'] and E[1/d'²] given that the pair is present (or the loop alone), [U]."""
        return self.once(law, "degrees", lambda: self._tables(law))[given]

    def _tables(self, law: Law) -> dict[tuple[int, int], tuple[Tensor, ...]]:
        counted = {EDGE: self.loop + 1.0, NONEDGE: self.loop + 1.0}
        counted |= {LOOP: self.loop} if self.loop > 0.0 else {}
        found = degree_tables(law, tuple((c, spent) for spent, c in counted.items()), (1.0, 2.0), self.dtype)
        return dict(zip(counted, found))

    def _mean_loop(self, law: Law) -> Tensor:
        if self.loop == 0.0:
            return self.no_loop()
        return self._of_loop(self._moments(law, LOOP)[0].index_select(0, self.graph.degree_classes[2]))

    def _loop_change(self, law: Law, given: tuple[int, int]) -> Tensor:
        """By how much a pair changes the loop's coefficient, [n]."""
        if self.loop == 0.0:
            return self.no_loop()
        without, including = (degree_moments(law, self.loop + k, given, (1.0,), self.dtype)[0] for k in (0, 1))
        return self._of_loop((including - without).index_select(0, self.graph.degree_classes[2]))

    def _of_loop(self, inverse: Tensor) -> Tensor:
        return self.gain * self.loop * inverse

    def _by_target(self, edge: Tensor, nonedge: Tensor, loop: Tensor) -> Moments:
        """Weights that depend on the target's degree class alone, [U]."""
        kernel = LowRank(self.graph, nonedge[:, None], torch.ones_like(nonedge)[:, None], by_degree=True)
        target, _, pair = self.graph.edge_classes
        edges = edge.index_select(0, target).index_select(0, pair)
        return Moments(edges, loop, over_nonedges(self.graph, kernel))

    def _inverse(self, degree: Tensor) -> Tensor:
        total = degree.to(self.dtype) + self.loop
        return torch.where(total > 0, total, 1.0).reciprocal()  # a node without neighbors and loop has no coefficient
