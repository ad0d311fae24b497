"""Sums over neighbors, normalised by the degrees of both ends: sum (GIN), mean (GraphSAGE) and symmetric (GCN)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments, RateFactors, Slopes, Weights, once
from rade.moments.degrees import EDGE, LOOP, NONEDGE, degree_moments, degree_tables
from rade.moments.denoise import Observed, signed_pairs
from rade.sums import LowRank, Sums, over_nonedges
from rade.views import View

Powers = tuple[Tensor, Tensor]  # f = E[d'^−a] and u = E[d'^−2a], [n] each


class Given(NamedTuple):
    """Moments of the degrees of a pair's target and of its source, given that the pair is present, and of the loop.

    At the source the pair counts only if both directions are one.
    """

    edge: tuple[Powers, Powers]
    nonedge: tuple[Powers, Powers]
    loop: Tensor  # [n] its mean coefficient


class Normalised(Coefficients):
    """α_ij = A_ij d_i^−a d_j^−b with d = loop + degree (Appendix C.I, C.II, E.I, E.II).

    Given A'_ij = 1 the endpoint degrees are independent: E[α'_ij] = π f_i f_j and E[α'_ij²] = π u_i u_j. On a directed
    graph both are in-degrees, as in PyG: the edge counts at its target only, and the source's moments are those
    without condition; a source that receives nothing, without loop, sends nothing.

    Attributes:
        a, b: powers of the target's and of the source's degree.
        loop: what a self-loop counts in a degree, 0 for none; its own coefficient is ``gain`` · loop · d^−(a+b).
    """

    def __init__(
        self, graph: Graph, dtype: torch.dtype, a: float, b: float, loop: float = 0.0, gain: float = 1.0
    ) -> None:
        super().__init__(graph, dtype)
        self.a, self.b, self.loop, self.gain = a, b, loop, gain

    @classmethod
    def of(cls, graph: Graph, *numbers: Any) -> Normalised:
        """The coefficients of a dtype and numbers, as the constructor takes them; the same object for all layers."""
        found: Normalised | None = graph.cache.get((cls, numbers))
        if found is None:
            found = graph.cache[cls, numbers] = cls(graph, *numbers)
        return found

    @staticmethod
    def sum(graph: Graph, dtype: torch.dtype) -> Normalised:
        """α_ij = 1."""
        return Normalised.of(graph, dtype, 0.0, 0.0)

    @staticmethod
    def mean_of(graph: Graph, dtype: torch.dtype, loop: float = 0.0, gain: float = 1.0) -> Normalised:
        """α_ij = 1/d_i; with a loop that counts in d, that of Cluster-GCN."""
        return Normalised.of(graph, dtype, 1.0, 0.0, loop, gain)

    @staticmethod
    def symmetric(graph: Graph, dtype: torch.dtype, loop: float = 1.0) -> Normalised:
        """α_ij = 1/√(d_i d_j)."""
        return Normalised.of(graph, dtype, 0.5, 0.5, loop)

    @cached_property
    def key(self) -> Hashable | None:
        """The graph and the numbers say it all; a subclass must make its own promise."""
        return (self.dtype, self.a, self.b, self.loop, self.gain) if type(self) is Normalised else None

    def clean(self) -> Weights:
        target, source, loop = self._at_nodes
        return Weights(self._ends(target, source), loop, self.nothing_added())

    def on(self, view: View) -> Weights:
        kept = view.kept.to(self.dtype)
        if self.a == self.b == 0.0:
            return Weights(kept, self.no_loop(), kept.new_ones(view.added.size))
        target, source, loop = self._of_degrees(view.degree)
        added = target.index_select(0, view.added.target) * source.index_select(0, view.added.source)
        return Weights(self._ends(target, source) * kept, loop, added)

    def mean(self, distribution: Distribution) -> Moments:
        """(1−p) f_i f_j on edges, q f_i f_j on non-edges, gain · loop · E[d'^−(a+b)] on loops."""
        p, q = distribution.rates.p, distribution.rates.q
        if self.a == self.b == 0.0:
            return self._alike(1.0 - p, q)
        given = self._given(distribution)
        (target, _), (source, _) = given.edge
        edges = self._ends((1.0 - p) * target, source)
        (target, _), (source, _) = given.nonedge
        return Moments(edges, given.loop, over_nonedges(self.graph, (q * target)[:, None], source[:, None]))

    def variance(self, distribution: Distribution) -> Moments:
        """π [v_i u_j + f_i² (v_j + (1−π) f_j²)] with v = u − f²: no difference of nearly equal numbers."""
        p, q = distribution.rates.p, distribution.rates.q
        if self.a == self.b == 0.0:
            return self._alike(p * (1.0 - p), q * (1.0 - q))
        given = self._given(distribution)
        left, right = second_moment(*given.edge, p)
        edges = self._ends((1.0 - p) * left, right).sum(-1)
        left, right = second_moment(*given.nonedge, 1.0 - q)
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, q * left, right))

    def ratio(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """c_i c_j / (1−p) with c = d^−a/f."""
        if self.a == self.b == 0.0:
            return self.everywhere(1.0 / (1.0 - distribution.rates.p), self.graph.pattern.size), self.no_loop()
        given = self._given(distribution)
        (target, source, own), ((f, _), (fs, _)) = self._at_nodes, given.edge
        to, loop = target / f, own / given.loop.masked_fill(given.loop == 0, 1.0)
        by = to if target is source and f is fs else source / fs.masked_fill(fs == 0, 1.0)
        return self._ends(to / (1.0 - distribution.rates.p), by), loop

    def denoised(self, observed: Observed) -> Sums:
        """Signed pairs, normalised by estimated clean degrees; a plain sum needs none and is unbiased."""
        target, source, loop = self._of_degrees(observed.degree)
        excess = 1.0 if self.a == self.b == 0.0 else observed.excess.to(self.dtype)
        pairs = signed_pairs(observed, target, source, excess)
        return pairs + Sums(self.graph, loop=loop) if self.loop > 0.0 else pairs

    def covariance(self, distribution: Distribution) -> Moments:
        """The variance where α'_ij = α'_ji; else π(1−π) f_i f_j, since the endpoint degrees are independent."""
        if self.a == self.b:
            return self.varying(distribution)
        given = self._given(distribution)
        q, (f, _) = distribution.rates.q, given.nonedge[0]
        nonedges = over_nonedges(self.graph, (q * (1.0 - q) * f)[:, None], f[:, None])
        return Moments(super().covariance(distribution).edges, self.no_loop(), nonedges)

    def response(self, view: View, slopes: Slopes) -> tuple[Tensor, Tensor]:
        """A pair's own message, and what one more neighbor of i takes from all that i receives and sends."""
        edges, added = super().response(view, slopes)
        if self.a == self.b == 0.0:
            return edges, added
        on_edges, on_added = self.taken(view, slopes, self.expected(view.distribution).edges * slopes.edges)
        return edges + on_edges, added + on_added

    def taken(self, view: View, slopes: Slopes, sent: Tensor) -> tuple[Tensor, Tensor]:
        """What one more neighbor of i takes, by edges and additions; ``sent`` [E] is what edges bring on average."""
        rates, pattern, target = view.rates, self.graph.pattern, self.graph.pattern.target
        received = pattern.row_sum(sent) + slopes.nonedges
        # The source's normalisation is carried by what it sends; that goes back with the pair, where it is the same.
        given = torch.zeros_like(received)
        if self.b > 0.0:
            given = pattern.transpose.row_sum(sent[pattern.transposition]) + slopes.reverse()
        to, by, loop = self._one_more(view.distribution, EDGE, 1.0 - rates.p)
        back = self.graph.reverse(sent, pattern)
        edges = to[target] * (received[target] - sent) + by[target] * (given[target] - back)
        edges = edges + (loop * slopes.loop)[target]
        to, by, loop = self._one_more(view.distribution, NONEDGE, rates.q)
        return edges, (to * received + by * given + loop * slopes.loop)[view.added.target]

    def rate_factors(self, distribution: Distribution) -> RateFactors | None:
        """For plain sums p/(1−p) and q(1−q) (Appendix G); without correction the edge part is p(1−p)."""
        if not self.a == self.b == 0.0 or distribution.correction.cap not in ("auto", "none"):
            return None
        power = -1 if distribution.variant.corrects else 1
        return lambda rates: (rates.p * (1.0 - rates.p) ** power, rates.q * (1.0 - rates.q))

    def detached(self) -> Normalised:
        """Itself: neither features nor parameters are in it."""
        return self

    def _alike(self, edges: float | Tensor, nonedges: float | Tensor) -> Moments:
        """One number for all edges, and one for all non-edges."""
        graph, size, nodes = self.graph, self.graph.pattern.size, self.graph.num_nodes
        everyone = LowRank(graph, self.everywhere(nonedges, nodes)[:, None], self.everywhere(1.0, nodes)[:, None])
        sums = Sums(graph, self.everywhere(-nonedges, size), self.everywhere(-nonedges, nodes), everyone=(everyone,))
        return Moments(self.everywhere(edges, size), self.no_loop(), sums)

    @once
    def _given(self, distribution: Distribution) -> Given:
        """E[d'^−s] of every node for all powers s: given an edge, a non-edge, or the loop alone."""
        ones = self.everywhere(1.0, self.graph.num_nodes)
        powers = tuple(sorted({self.a, 2 * self.a, self.b, 2 * self.b, self.a + self.b} - {0.0}))
        counted = [(self.loop + 1.0, EDGE), (self.loop + 1.0, NONEDGE)]
        if self.loop > 0.0:
            counted.append((self.loop, LOOP))
        edge, nonedge, *alone = degree_tables(distribution, tuple(counted), powers, self.dtype)
        if not alone and self.graph.ends == 1 and self.b > 0.0:
            alone = [tuple(degree_moments(distribution, 0.0, LOOP, powers, self.dtype))]
        loop = self.no_loop()
        if self.loop > 0.0:
            loop = self.gain * self.loop * alone[0][powers.index(self.a + self.b)]

        def ends(found: Sequence[Tensor]) -> tuple[Powers, Powers]:
            target = {0.0: ones, **dict(zip(powers, found))}
            source = target if self.graph.ends == 2 or not alone else {0.0: ones, **dict(zip(powers, alone[0]))}
            return (target[self.a], target[2 * self.a]), (source[self.b], source[2 * self.b])

        return Given(ends(edge), ends(nonedge), loop)

    def _one_more(
        self, distribution: Distribution, spent: tuple[int, int], present: float | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Relative changes of d'^−a and d'^−b by one more neighbor, and change of the loop, [n] each.

        First of a message that is received, whose own pair is present and counted; then of one that is sent, whose
        pair counts here only if both directions are one. ``present`` is the probability π of that neighbor, which
        ``spent`` takes out of the degree: (f₁ − f₀)/(π f₁ + (1−π) f₀).
        """

        def moments(counted: int, power: float, more: int) -> Tensor:
            given = (spent[0] + counted, spent[1])
            return degree_moments(distribution, self.loop + counted + more, given, (power,), torch.double)[0]

        def change(counted: int, power: float) -> Tensor:
            if power == 0.0:
                return self.no_loop()
            without, including = (moments(counted, power, more) for more in (0, 1))
            return ((including - without) / (present * including + (1.0 - present) * without)).to(self.dtype)

        loop, both = self.no_loop(), self.a + self.b
        if self.loop > 0.0:
            loop = self.gain * self.loop * (moments(0, both, 1) - moments(0, both, 0)).to(self.dtype)
        return change(1, self.a), change(self.graph.ends - 1, self.b), loop

    @cached_property
    def _at_nodes(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._of_degrees(self.graph.degree)

    def _of_degrees(self, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d^−a, d^−b and the loop's coefficient; 0 for a node without edges and loop."""
        total = degree.to(self.dtype) + self.loop
        if self.loop == 0.0:
            total = torch.where(total > 0, total, torch.inf)
        target = _inverse(total, self.a)
        source = target if self.a == self.b else _inverse(total, self.b)
        own, gain = target * source, self.gain * self.loop
        return target, source, own if gain == 1.0 else gain * own

    def _ends(self, target: Tensor, source: Tensor) -> Tensor:
        pattern = self.graph.pattern
        return target.index_select(0, pattern.target) * source.index_select(0, pattern.source)


def _inverse(degree: Tensor, power: float) -> Tensor:
    if power == 0.0:
        return torch.ones_like(degree)
    return degree.rsqrt() if power == 0.5 else degree.pow(-power)


def second_moment(target: Sequence[Tensor], source: Sequence[Tensor], absent: float | Tensor) -> tuple[Tensor, Tensor]:
    """Factors [n, 2] of v_i u_j + f_i² (v_j + (1−π) f_j²), the variance given a chance π = 1 − ``absent``, over π."""
    (f, u), (fs, us) = target, source
    square, at_source = f.square(), fs.square()
    return torch.stack([u - square, square], 1), torch.stack([us, us - at_source + absent * at_source], 1)
