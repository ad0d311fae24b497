"""Symmetric normalisation with edge weights (GCN): α_ij = e_ij / √(d_i d_j), d_i = loop + Σ_k A_ik e_ik."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import LowRank, over_nonedges
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.degrees import relative_change
from rade.moments.symmetric import spread
from rade.moments.weighted_degrees import Given, WeightedDegrees, weighted_moments
from rade.view.law import Law
from rade.view.view import View


class WeightedSymmetric(Coefficients):
    """α_ij = e_ij/√(d_i d_j) with positive weights on the clean edges, in the graph's order ([E]); e may be directed.

    An added edge weighs ``added``: a number, or one for every node [n], equal within a graph. Given A'_ij = 1 the
    endpoint degrees are independent: E[α'_ij] = π e_ij f_ij f_ji, E[α'_ij²] = π e_ij² u_ij u_ji with f = E[d'^−½],
    u = E[d'^−1], which hang on e_ij and on all other weights at the end. On a directed graph an edge counts at its
    target only, as in `Symmetric`.
    """

    def __init__(
        self, graph: Graph, dtype: torch.dtype, weight: Tensor, added: float | Tensor, loop: float = 1.0
    ) -> None:
        super().__init__(graph, dtype)
        self.loop, self.weight = loop, weight.to(dtype)
        self.added = self.everywhere(1.0, graph.num_nodes) * added

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

    def mean(self, law: Law) -> Moments:
        """(1−p) e_ij f_ij f_ji on edges, q w f_i f_j on non-edges, loop · E[1/d'] on loops."""
        (edge, _), (nonedge, _), (loop,) = self._moments(law)[:3]
        (edge_source, _), (nonedge_source, _) = self._at_source(law)
        kernel = LowRank(self.graph, (law.rates.q * self.added * nonedge)[:, None], nonedge_source[:, None])
        edges = (1.0 - law.rates.p) * self.weight * edge * edge_source
        return Moments(edges, self.loop * loop, over_nonedges(self.graph, kernel))

    def variance(self, law: Law) -> Moments:
        """e² π [v_i u_j + f_i² v_j + (1−π) f_i² f_j²] with v = u − f², as in `Symmetric`."""
        return self._second(law, self.weight)

    def covariance(self, law: Law) -> Moments:
        """α'_ji = α'_ij e_ji/e_ij: the variance with e_ij e_ji."""
        return self._second(law, self._back(self.weight))

    def response(self, view: View, pulls: Pulls) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what its weight in the degree of i takes from all that i receives and sends.

        The other messages' own neighbor weighs here what i's edges weigh on average.
        """
        law, pattern = view.law, self.graph.pattern
        edges, added = super().response(view, pulls)
        sent = self.expected(law).edges * pulls.edges
        back, target = self.graph.directions.reversed(sent, pattern), pattern.target  # as in `Symmetric`
        received, given = pattern.row_sum(sent) + pulls.nonedges, pattern.column_sum(sent) + pulls.reverse()
        (to, by, loop), (to_added, by_added, loop_added) = self._one_more(law)
        edges = edges + to * (received[target] - sent) + by * (given[target] - back) + loop * pulls.loop[target]
        return edges, added + (to_added * received + by_added * given + loop_added * pulls.loop)[view.added.target]

    def _second(self, law: Law, other: Tensor) -> Moments:
        p, q = law.rates.p, law.rates.q
        edges, nonedges = self._moments(law)[:2]
        edges_source, nonedges_source = self._at_source(law)
        left, right = spread(edges, edges_source, p)
        each = (left * right).sum(-1)
        left, right = spread(nonedges, nonedges_source, 1.0 - q)
        kernel = LowRank(self.graph, (q * self.added.square())[:, None] * left, right)
        return Moments((1.0 - p) * self.weight * other * each, self.no_loop(), over_nonedges(self.graph, kernel))

    def _moments(self, law: Law) -> list[list[Tensor]]:
        """E[d'^−½], E[d'^−1] of targets given each edge, [E], of nodes given an addition; E[d'^−1] given nothing."""
        nothing = torch.zeros_like(self.added, dtype=torch.double)
        wanted = [
            Given(self.loop + nothing, (0.5, 1.0), by_entry=True, own=True),
            Given(self.loop + self.added.double(), (0.5, 1.0), joined=1.0),
            Given(self._own_loop + nothing, (1.0,)),
        ]
        return self.once(law, "degrees", lambda: self._inverse(law, wanted))

    def _at_source(self, law: Law) -> list[list[Tensor]]:
        """E[d'^−½], E[d'^−1] of sources given each edge, [E], and of nodes that send along an addition, [n]."""
        if self.graph.directions.together:
            edges, nonedges = self._moments(law)[:2]
            return [[self._back(moment) for moment in edges], nonedges]
        alone = self.once(law, "alone", lambda: self._alone(law))
        return [[moment.index_select(0, self.graph.pattern.source) for moment in alone], alone]

    def _alone(self, law: Law) -> list[Tensor]:
        """E[d'^−½; d' > 0], E[d'^−1; d' > 0] given nothing, [n]; without loop as `degree_moments` has them."""
        e, w, (p, q) = self._double, self.added.double(), (law.rates.p, law.rates.q)
        if self.loop > 0.0:
            return self._inverse(law, [Given(self.loop + torch.zeros_like(w), (0.5, 1.0))])[0]
        wanted = [Given(torch.zeros_like(w), (1.5, 2.0), by_entry=True, own=True), Given(w, (1.5, 2.0), joined=1.0)]
        beside = zip(*weighted_moments(WeightedDegrees.of(self.graph, e, w), law, wanted))
        others = q * self.graph.nonneighbors.double() * w
        each = [self.graph.pattern.row_sum((1.0 - p) * e * edge) + others * nonedge for edge, nonedge in beside]
        return [moment.to(self.dtype) for moment in each]

    def _one_more(self, law: Law) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Relative changes of d'^−½ by a pair, and change of loop/d'; by edges [E], additions [n].

        First of a message that is received, whose own pair is counted beside; then of one that is sent, whose pair
        counts only if both directions are one. Without loops it is counted, too: next to nothing, all is change.
        """
        degree, e, w = self.graph.degree.double(), self._double, self.added.double()
        typical = torch.where(degree > 0, self.graph.pattern.row_sum(e) / degree.clamp(min=1), w)
        # The one beside is one of the others: of a−1 at an edge, of a at an addition.
        at_edge, at_addition = (((a - 1.0) / a.clamp(min=1)).clamp(min=0) for a in (degree - 1.0, degree))
        apart = self.loop > 0.0 and not self.graph.directions.together
        powers, changes = (1.0, 0.5) if apart else (1.0,), []
        for by_entry, share in ((True, at_edge), (False, at_addition)):
            joined, present = (0.0, 1.0 - law.rates.p) if by_entry else (1.0, law.rates.q)
            more = [(False, 0.0 * w), (by_entry, 0.0 * w if by_entry else w)]  # without the pair, and with it
            roots = [Given(self.loop + typical + c, (0.5,), by_entry, own, joined, share) for own, c in more]
            loops = [Given(self._own_loop + c, powers, by_entry, own, joined) for own, c in more]
            found = self._inverse(law, [*roots, *loops])
            to = relative_change(found[0][0], found[1][0], present)
            by = relative_change(found[2][1], found[3][1], present) if apart else to
            changes.append((to, by, self.loop * (found[3][0] - found[2][0])))
        return changes

    @property
    def _own_loop(self) -> float:
        return self.loop if self.loop > 0.0 else 1.0  # without loops nobody asks what becomes of them

    def _inverse(self, law: Law, wanted: list[Given]) -> list[list[Tensor]]:
        degrees = WeightedDegrees.of(self.graph, self._double, self.added.double())
        return [[value.to(self.dtype) for value in row] for row in weighted_moments(degrees, law, wanted)]

    @property
    def _double(self) -> Tensor:
        return self.weight.double()

    def _back(self, values: Tensor) -> Tensor:
        """Values of the opposite entries, [E]."""
        return values[self.graph.pattern.transposition]

    def _ends(self, root: Tensor) -> Tensor:
        return root.index_select(0, self.graph.pattern.target) * root.index_select(0, self.graph.pattern.source)

    def _root(self, degree: Tensor) -> Tensor:
        total = degree + self.loop
        return torch.where(total > 0, total, torch.inf).rsqrt()  # a node without edges and loop has no coefficient
