"""Symmetric normalisation with edge weights (GCN): α_ij = e_ij / √(d_i d_j), d_i = loop + Σ_k A_ik e_ik."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import LowRank, over_nonedges
from rade.moments.base import Coefficients, Moments, Pulls, Weights
from rade.moments.weighted_degrees import Given, WeightedDegrees, weighted_moments
from rade.view.law import Law
from rade.view.view import View


class WeightedSymmetric(Coefficients):
    """α_ij = e_ij/√(d_i d_j) with positive weights on the clean edges, in the graph's order ([E]); e may be directed.

    An added edge weighs ``added``: a number, or one for every node [n], equal within a graph. Given A'_ij = 1 the
    endpoint degrees are independent: E[α'_ij] = π e_ij f_ij f_ji, E[α'_ij²] = π e_ij² u_ij u_ji with f = E[d'^−½],
    u = E[d'^−1], which hang on e_ij and on all other weights at the end.
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
        (edge, _), (nonedge, _), (loop,) = self._moments(law)
        kernel = LowRank(self.graph, (law.rates.q * self.added * nonedge)[:, None], nonedge[:, None])
        edges = (1.0 - law.rates.p) * self.weight * edge * self._back(edge)
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
        sent = sent + self._back(sent)  # both directions carry the normalisation of both ends
        total = pattern.row_sum(sent) + pulls.nonedges + pulls.reverse()
        (at_edge, loop_at_edge), (at_nonedge, loop_at_nonedge) = self._one_more(law)
        edges = edges + at_edge * (total[pattern.target] - sent) + loop_at_edge * pulls.loop[pattern.target]
        return edges, added + (at_nonedge * total + loop_at_nonedge * pulls.loop)[view.added.target]

    def _second(self, law: Law, other: Tensor) -> Moments:
        p, q = law.rates.p, law.rates.q
        (f, u), nonedges, _ = self._moments(law)
        v, f2 = u - f.square(), f.square()
        each = v * self._back(u) + f2 * self._back(v) + p * f2 * self._back(f2)
        f, u = nonedges
        v, f2 = u - f.square(), f.square()
        left, right = torch.stack([v, f2, (1.0 - q) * f2], 1), torch.stack([u, v, f2], 1)
        kernel = LowRank(self.graph, (q * self.added.square())[:, None] * left, right)
        edges = (1.0 - p) * self.weight * other * each
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, kernel))

    def _moments(self, law: Law) -> list[list[Tensor]]:
        """E[d'^−½], E[d'^−1] of targets given each edge, [E], of nodes given an addition; E[d'^−1] given nothing."""
        wanted = [
            Given(self.loop + self._double, (0.5, 1.0), by_entry=True),
            Given(self.loop + self.added.double(), (0.5, 1.0), joined=1.0),
            Given(self._own_loop + torch.zeros_like(self.added, dtype=torch.double), (1.0,)),
        ]
        return self.once(law, "degrees", lambda: self._inverse(law, wanted))

    def _one_more(self, law: Law) -> list[tuple[Tensor, Tensor]]:
        """Relative change of d'^−½ by a pair beside a present one, change of loop/d'; by edges [E], additions [n]."""
        degree, target, e, w = self.graph.degree.double(), self.graph.pattern.target, self._double, self.added.double()
        typical = torch.where(degree > 0, self.graph.pattern.row_sum(e) / degree.clamp(min=1), w)
        # The one beside is one of the others: of a−1 at an edge, of a at an addition.
        at_edge, at_addition = (((a - 1.0) / a.clamp(min=1)).clamp(min=0) for a in (degree - 1.0, degree))
        changes = []
        for own, beside, by_entry, share in ((e, typical[target], True, at_edge), (w, typical, False, at_addition)):
            joined, present = (0.0, 1.0 - law.rates.p) if by_entry else (1.0, law.rates.q)
            roots = [Given(self.loop + beside + k * own, (0.5,), by_entry, joined, share) for k in (0, 1)]
            loops = [Given(self._own_loop + k * own, (1.0,), by_entry, joined) for k in (0, 1)]
            without, including, lone, joined_by = (found[0] for found in self._inverse(law, [*roots, *loops]))
            change = (including - without) / (present * including + (1.0 - present) * without)
            changes.append((change, self.loop * (joined_by - lone)))
        return changes

    @property
    def _own_loop(self) -> float:
        return self.loop if self.loop > 0.0 else 1.0  # without loops nobody asks what becomes of them

    def _inverse(self, law: Law, wanted: list[Given]) -> list[list[Tensor]]:
        degrees = WeightedDegrees(self.graph, self._double, self.added.double())
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
        return torch.where(total > 0, total, 1.0).rsqrt()  # a node without edges and loop has no coefficient
