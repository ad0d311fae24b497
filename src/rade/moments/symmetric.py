"""Symmetric degree normalisation (GCN): α_ij = A_ij / √(d_i d_j), with the loop counted in d."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import Diagonal, LowRank, Operator, over_nonedges
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.degrees import EDGE, LOOP, NONEDGE, degree_moments, one_more
from rade.moments.denoising import signed_pairs
from rade.view.law import Law
from rade.view.observed import Observed
from rade.view.view import View


class Symmetric(Coefficients):
    """α_ij = 1/√(d_i d_j), d_i = loop + degree (Appendix C.II, E.II); ``loop`` is the weight of self-loops, 0 for none.

    Given A'_ij = 1 the endpoint degrees are independent: E[α'_ij] = π f_i f_j, E[α'_ij²] = π u_i u_j with
    f = E[d'^−½], u = E[d'^−1].
    """

    def __init__(self, graph: Graph, dtype: torch.dtype, loop: float = 1.0) -> None:
        super().__init__(graph, dtype)
        self.loop = loop

    @property
    def key(self) -> Hashable | None:
        """One per loop weight."""
        return (Symmetric, self.dtype, self.loop) if type(self) is Symmetric else None  # as in Sum

    def clean(self) -> Weights:
        """1/√(d_i d_j) and loop/d_i."""
        return self._weights(self.graph.degree, None)

    def on(self, view: View) -> Weights:
        """The same with the view's degrees."""
        degree = self.graph.pattern.row_sum(view.kept.long()) + view.added.rowptr.diff()
        return self._weights(degree, view)

    def mean(self, law: Law) -> Moments:
        """(1−p) f_i f_j on edges, q f_i f_j on non-edges, loop · E[1/d'] on loops."""
        edge, nonedge = self._moments(law, EDGE)[0], self._moments(law, NONEDGE)[0]
        kernel = LowRank(self.graph, law.rates.q * nonedge[:, None], nonedge[:, None], by_degree=True)
        edges = (1.0 - law.rates.p) * self._pairs(edge, edge)
        return Moments(edges.index_select(0, self._pair), self._mean_loop(law), over_nonedges(self.graph, kernel))

    def variance(self, law: Law) -> Moments:
        """π [v_i u_j + f_i² v_j + (1−π) f_i² f_j²] with v = u − f²: no difference of nearly equal numbers."""
        p, q = law.rates.p, law.rates.q
        f, u = self._moments(law, EDGE)
        v, f2 = u - f.square(), f.square()
        edges = (1.0 - p) * (self._pairs(v, u) + self._pairs(f2, v) + p * self._pairs(f2, f2))
        f, u = self._moments(law, NONEDGE)
        v, f2 = u - f.square(), f.square()
        left, right = torch.stack([v, f2, (1.0 - q) * f2], 1), torch.stack([u, v, f2], 1)
        kernel = LowRank(self.graph, q * left, right, by_degree=True)
        return Moments(edges.index_select(0, self._pair), self.no_loop(), over_nonedges(self.graph, kernel))

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """c_i c_j / (1−p) with c = d^−½/f, per pair of degrees."""
        f, _ = self._moments(law, EDGE)
        degrees = self.graph.degree_classes[0].to(self.dtype) + self.loop
        c = torch.where(degrees > 0, degrees, 1.0).rsqrt() / f
        clean, mean = self.loop * self._root(self.graph.degree).square(), self.expected(law).loop
        loop = clean / torch.where(mean != 0, mean, 1.0)
        return (self._pairs(c, c) / (1.0 - law.rates.p)).index_select(0, self._pair), loop

    def denoised(self, observed: Observed) -> Operator:
        """Signed pairs, normalised by estimated clean degrees."""
        root = self._root(observed.degree)
        pairs = signed_pairs(observed, root, root, observed.excess.to(self.dtype))
        return pairs + Operator((Diagonal(self.loop * root.square()),))

    def covariance(self, law: Law) -> Moments:
        """α'_ij = α'_ji: the variance."""
        return self.variance(law)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what one more neighbor of i takes from all that i receives and sends."""
        pattern = self.graph.pattern
        edges, added = super().response(view, pulls)
        sent = self.expected(view.law).edges * pulls.edges
        sent = sent + sent[pattern.transposition]  # both directions carry the normalisation of both ends
        total = pattern.row_sum(sent) + pulls.nonedges + pulls.reverse()
        at_edge, loop_at_edge = self._one_more(view.law, (2, 0), 1.0 - view.law.rates.p)
        at_nonedge, loop_at_nonedge = self._one_more(view.law, (1, 1), view.law.rates.q)
        target = pattern.target
        edges = edges + at_edge[target] * (total[target] - sent) + (loop_at_edge * pulls.loop)[target]
        return edges, added + (at_nonedge * total + loop_at_nonedge * pulls.loop)[view.added.target]

    def _one_more(self, law: Law, spent: tuple[int, int], present: float | Tensor) -> tuple[Tensor, Tensor]:
        """Relative change of d'^−½ by one more neighbor beside a present one, and change of loop/d', [n] each."""
        of = self.graph.degree_classes[2]
        change = one_more(law, self.loop + 1.0, spent, 0.5, present).to(self.dtype).index_select(0, of)
        if self.loop == 0.0:
            return change, torch.zeros_like(change)
        beside = (spent[0] - 1, spent[1])
        without, including = (degree_moments(law, self.loop + k, beside, (1.0,), self.dtype)[0] for k in (0, 1))
        return change, self.loop * (including - without).index_select(0, of)

    def _moments(self, law: Law, given: tuple[int, int]) -> list[Tensor]:
        """f = E[d'^−½] and u = E[d'^−1] given that the pair is present, [U]."""
        args = (law, self.loop + 1.0, given, (0.5, 1.0), self.dtype)
        return self.once(law, given, lambda: degree_moments(*args))

    def _mean_loop(self, law: Law) -> Tensor:
        if self.loop == 0.0:
            return self.no_loop()
        (inverse,) = degree_moments(law, self.loop, LOOP, (1.0,), self.dtype)
        return self.loop * inverse.index_select(0, self.graph.degree_classes[2])

    def _pairs(self, left: Tensor, right: Tensor) -> Tensor:
        """left_i right_j for every pair of degree classes that an edge joins, [K]."""
        target, source, _ = self.graph.edge_classes
        return left.index_select(0, target) * right.index_select(0, source)

    @property
    def _pair(self) -> Tensor:
        return self.graph.edge_classes[2]

    def _ends(self, left: Tensor, right: Tensor) -> Tensor:
        return left.index_select(0, self.graph.pattern.target) * right.index_select(0, self.graph.pattern.source)

    def _root(self, degree: Tensor) -> Tensor:
        total = degree.to(self.dtype) + self.loop
        return torch.where(total > 0, total, 1.0).rsqrt()  # a node without edges and loop has no coefficient

    def _weights(self, degree: Tensor, view: View | None) -> Weights:
        root = self._root(degree)
        loop = self.loop * root.square()
        if view is None:
            return Weights(self._ends(root, root), loop, self.nothing_added())
        added = root.index_select(0, view.added.target) * root.index_select(0, view.added.source)
        return Weights(self._ends(root, root) * view.kept, loop, added)
