"""A graph that was measured with errors, some edges spurious and some real ones missing, and how that is undone.

Every pair counts (wA' − qs)/((1−p)r − qs), on average 1 on clean edges and 0 elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rade.distribution import Distribution, Rates, Trust
from rade.graph.graph import Graph
from rade.sums import LowRank, Sums


@dataclass(frozen=True, eq=False)
class Observed:
    """An observed graph A' as a noisy view of an unknown clean one: edges were lost with p, non-edges appeared with q.

    Aggregation over it estimates that of the clean graph. Every pair is weighed by (w_ij A'_ij − qs)/((1−p)r − qs),
    with w the trust in each edge, s and r its means for spurious and for real ones: 1 on average on clean edges and 0
    elsewhere. Normalisations use an estimate of the clean degree. By default w = s = r = 1.
    """

    graph: Graph
    noise: Rates
    trust: Trust = Trust()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        self.trust.check(self.graph)

    @staticmethod
    def of(distribution: Distribution) -> Observed:
        """The noisy graph of a distribution, found once."""
        new = Observed(distribution.graph, distribution.noise, distribution.trust)
        found: Observed = distribution.cache.setdefault("observed", new)
        return found

    @property
    def gain(self) -> float:
        """1/((1−p)r − qs): what trust in an edge counts, so that kept and spurious ones add up to the clean ones."""
        return 1.0 / (self.kept - self.leak)

    @property
    def kept(self) -> float:
        """(1−p)r: what real edges weigh on average, lost ones among them."""
        return (1.0 - self.noise.numbers[0]) * self.trust.real

    @property
    def leak(self) -> float:
        """qs: what spurious edges weigh on average over all pairs."""
        return self.noise.numbers[1] * self.trust.spurious

    @cached_property
    def spurious(self) -> Tensor:
        """Expected weight of spurious edges at each node, λ_i = qs a_i Σ_{j≠i} a_j, [n] in double precision."""
        ends = self.trust.factors(self.graph.num_nodes, self.graph.device)
        others = self.graph.per_node(self.graph.pool(ends)) - ends
        return self.leak * ends * others

    @cached_property
    def seen(self) -> Tensor:
        """Trust in all edges of a node, its degree where all are trusted, [n] in double precision."""
        return self.graph.pattern.row_sum(self.trust.weights(self.graph.pattern.size, self.graph.device))

    @cached_property
    def degree(self) -> Tensor:
        """Estimated clean degree of a node with at least one real edge, [n] in double precision; 0 without edges.

        The number of spurious edges S is Poisson(λ); given that k are observed and one of them is real, S ≤ k − 1, so
        k − E[S | S ≤ k − 1] = k − λ P(S ≤ k−2)/P(S ≤ k−1) are real, never less than one. The plain difference k − λ
        would be negative at a sixth of the nodes where λ is as large as the real degree. Sums of trust are taken for
        counts, with the incomplete gamma function between whole numbers.
        """
        return torch.where(self.graph.degree > 0, self._real / self.kept, 0.0)

    @cached_property
    def share(self) -> Tensor:
        """E[S | k]/k: spurious edges at a node given its observed degree, over all it has, [n]."""
        return (self.seen - self._real).clamp(min=0.0) / torch.where(self.seen > 0, self.seen, 1.0)

    @cached_property
    def excess(self) -> Tensor:
        """E[S | k]/λ: spurious edges at a node given its observed degree, over those expected before, [n]."""
        rate = self.spurious
        return torch.where(rate > 0, self.share * self.seen / torch.where(rate > 0, rate, 1.0), 0.0)

    @cached_property
    def _real(self) -> Tensor:
        """k − E[S | S ≤ k − 1], at least 1, [n]."""
        seen, rate = self.seen, self.spurious.clamp(min=torch.finfo(torch.double).tiny)
        below = torch.special.gammaincc(seen.clamp(min=1.0), rate)  # P(S ≤ k−1)
        lower = torch.where(seen > 1, torch.special.gammaincc((seen - 1.0).clamp(min=1e-9), rate), 0.0)
        # So many spurious edges expected that nothing is left below k: one real edge is what can be said.
        known = below > 1e-290
        return torch.where(known, seen - rate * lower / torch.where(known, below, 1.0), 1.0).clamp(min=1.0)


def signed_pairs(observed: Observed, left: Tensor, right: Tensor, excess: Tensor | float = 1.0) -> Sums:
    """Σ_{j≠i} l_i r_j (w_ij A'_ij − qs)/((1−p)r − qs) x_j with factors l, r [n] of the ends; w, s, r as in `Trust`.

    Observed edges count for more than one, all other pairs a little less than 0; one sparse product and rank one.
    Where noise differs by factors a_i a_j of the ends, qs a_i a_j/((1−p)r − qs) is taken off every pair; the mean is
    then exact on clean edges and off by O(q²) on others. ``excess`` [n] scales what is taken off each target.
    """
    graph, pattern = observed.graph, observed.graph.pattern
    trust = observed.gain * observed.trust.weights(pattern.size, left.device)
    off, ends = observed.leak * observed.gain, observed.trust.factors(graph.num_nodes, left.device)
    if isinstance(observed.trust.ends, Tensor) and off > 0.0:
        trust = trust * (1.0 + off * ends[pattern.target] * ends[pattern.source]) / (1.0 + off)
    edges = trust.to(left.dtype) * (left[pattern.target] * right[pattern.source])
    if off == 0.0:
        return Sums(graph, edges)
    ends = ends.to(left.dtype)
    taken, by = (-off * excess * torch.ones_like(left) * ends * left)[:, None], (ends * right)[:, None]
    return Sums(graph, edges, -(taken * by).sum(-1), everyone=(LowRank(graph, taken, by),))
