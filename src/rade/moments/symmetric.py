"""Symmetric degree normalisation (GCN): α_ij = A_ij / √(d_i d_j), with the loop counted in d."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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


class Symmetric(Coefficients):
    """α_ij = 1/√(d_i d_j), d_i = loop + degree (Appendix C.II, E.II); ``loop`` is the weight of self-loops, 0 for none.

    Given A'_ij = 1 the endpoint degrees are independent: E[α'_ij] = π f_i f_j, E[α'_ij²] = π u_i u_j with
    f = E[d'^−½], u = E[d'^−1]. On a directed graph both are in-degrees, as in PyG: the edge counts at its target only,
    and the source's moments are those without condition; a source that hears nobody, without loop, sends nothing.
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
        kernel = LowRank(
            self.graph, law.rates.q * nonedge[:, None], self._at_source(law, NONEDGE)[0][:, None], by_degree=True
        )
        edges = (1.0 - law.rates.p) * self._pairs(edge, self._at_source(law, EDGE)[0])
        return Moments(edges.index_select(0, self._pair), self._mean_loop(law), over_nonedges(self.graph, kernel))

    def variance(self, law: Law) -> Moments:
        """π [v_i u_j + f_i² (v_j + (1−π) f_j²)] with v = u − f²: no difference of nearly equal numbers."""
        p, q = law.rates.p, law.rates.q
        left, right = spread(self._moments(law, EDGE), self._at_source(law, EDGE), p)
        edges = (1.0 - p) * self._pairs(left, right).sum(-1)
        left, right = spread(self._moments(law, NONEDGE), self._at_source(law, NONEDGE), 1.0 - q)
        kernel = LowRank(self.graph, q * left, right, by_degree=True)
        return Moments(edges.index_select(0, self._pair), self.no_loop(), over_nonedges(self.graph, kernel))

    def ratio(self, law: Law) -> tuple[Tensor, Tensor]:
        """c_i c_j / (1−p) with c = d^−½/f, per pair of degrees."""
        root = self._root(self.graph.degree_classes[0])
        f, fs = self._moments(law, EDGE)[0], self._at_source(law, EDGE)[0]
        c, cs = root / f, root / torch.where(fs > 0, fs, 1.0)
        clean, mean = self.loop * self._root(self.graph.degree).square(), self.expected(law).loop
        loop = clean / torch.where(mean != 0, mean, 1.0)
        return (self._pairs(c, cs) / (1.0 - law.rates.p)).index_select(0, self._pair), loop

    def denoised(self, observed: Observed) -> Operator:
        """Signed pairs, normalised by estimated clean degrees."""
        root = self._root(observed.degree)
        pairs = signed_pairs(observed, root, root, observed.excess.to(self.dtype))
        return pairs + Operator((Diagonal(self.loop * root.square()),))

    def covariance(self, law: Law) -> Moments:
        """α'_ij = α'_ji: the variance."""
        return self.spread(law)

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what one more neighbor of i takes from all that i receives and sends."""
        law, pattern = view.law, self.graph.pattern
        edges, added = super().response(view, pulls)
        sent = self.expected(law).edges * pulls.edges
        back = self.graph.directions.reversed(sent, pattern)  # goes with the pair, where it is the same pair
        # Both directions carry the normalisation of both ends.
        received, given = pattern.row_sum(sent) + pulls.nonedges, pattern.column_sum(sent) + pulls.reverse()
        to, by, loop = self._one_more(law, EDGE, 1.0 - law.rates.p)
        target = pattern.target
        edges = edges + to[target] * (received[target] - sent) + by[target] * (given[target] - back)
        edges = edges + (loop * pulls.loop)[target]
        to, by, loop = self._one_more(law, NONEDGE, law.rates.q)
        return edges, added + (to * received + by * given + loop * pulls.loop)[view.added.target]

    def _one_more(self, law: Law, spent: tuple[int, int], present: float | Tensor) -> list[Tensor]:
        """Relative change of d'^−½ by one more neighbor, and change of loop/d', [n] each.

        First of a message that is received, whose own pair is present and counted; then of one that is sent, whose
        pair counts here only if both directions are one.
        """
        of, counted = self.graph.degree_classes[2], self.graph.directions.ends - 1
        found = {
            k: one_more(law, self.loop + k, (spent[0] + k, spent[1]), 0.5, present).to(self.dtype).index_select(0, of)
            for k in {1, counted}
        }
        changes = [found[1], found[counted]]
        if self.loop == 0.0:
            return [*changes, torch.zeros_like(changes[0])]
        without, including = (degree_moments(law, self.loop + k, spent, (1.0,), self.dtype)[0] for k in (0, 1))
        return [*changes, self.loop * (including - without).index_select(0, of)]

    def _moments(self, law: Law, given: tuple[int, int]) -> tuple[Tensor, ...]:
        """f = E[d'^−½] and u = E[d'^−1] given that the pair is present and counted (or the loop alone), [U]."""
        return self.once(law, "degrees", lambda: self._tables(law))[given]

    def _at_source(self, law: Law, given: tuple[int, int]) -> tuple[Tensor, ...]:
        """The same at a pair's source, where it counts only if both directions are one."""
        return self._moments(law, given if self.graph.directions.ends == 2 else LOOP)

    def _tables(self, law: Law) -> dict[tuple[int, int], tuple[Tensor, ...]]:
        counted, powers = {EDGE: self.loop + 1.0, NONEDGE: self.loop + 1.0}, (0.5, 1.0)
        counted |= {LOOP: self.loop} if self.loop > 0.0 else {}
        found = degree_tables(law, tuple((c, spent) for spent, c in counted.items()), powers, self.dtype)
        tables = dict(zip(counted, found))
        if self.loop == 0.0 and self.graph.directions.ends == 1:
            tables[LOOP] = tuple(degree_moments(law, 0.0, LOOP, powers, self.dtype))
        return tables

    def _mean_loop(self, law: Law) -> Tensor:
        if self.loop == 0.0:
            return self.no_loop()
        return self.loop * self._moments(law, LOOP)[1].index_select(0, self.graph.degree_classes[2])

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
        return torch.where(total > 0, total, torch.inf).rsqrt()  # a node without edges and loop has no coefficient

    def _weights(self, degree: Tensor, view: View | None) -> Weights:
        root = self._root(degree)
        loop = self.loop * root.square()
        if view is None:
            return Weights(self._ends(root, root), loop, self.nothing_added())
        added = root.index_select(0, view.added.target) * root.index_select(0, view.added.source)
        return Weights(self._ends(root, root) * view.kept, loop, added)


def spread(target: Sequence[Tensor], source: Sequence[Tensor], absent: float | Tensor) -> tuple[Tensor, Tensor]:
    """Factors [U, 2] of v_i u_j + f_i² (v_j + (1−π) f_j²), the variance given a chance π = 1 − ``absent``, over π."""
    (f, u), (fs, us) = target, source
    square, at_source = f.square(), fs.square()
    return torch.stack([u - square, square], 1), torch.stack([us, us - at_source + absent * at_source], 1)
