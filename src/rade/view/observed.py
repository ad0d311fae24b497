"""A graph that was measured with errors: some of its edges are spurious, some real ones are missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.memory import Memo, remembered
from rade.view.rates import Rates, number
from rade.view.trust import Trust

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Observed(Adjacency):
    """An observed graph A' as a noisy view of an unknown clean one: edges were lost with p, non-edges appeared with q.

    Aggregation over it estimates that of the clean graph. Every pair is weighed by (w_ij A'_ij − qs)/((1−p)r − qs),
    with w the trust in each edge, s and r its means for spurious and for real ones: 1 on average on clean edges and 0
    elsewhere. Normalisations use an estimate of the clean degree. By default
    w = s = r = 1.
    """

    observed: Graph
    noise: Rates
    trust: Trust = Trust()  # noqa: RUF009 - a frozen value
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    def __post_init__(self) -> None:
        p, q = number(self.noise.p), number(self.noise.q)
        if p + q >= 1.0:
            raise ValueError(
                f"noise rates must add up to less than 1, got p = {p:g} and q = {q:g}: beyond that an observed edge "
                "says nothing, or the opposite"
            )
        if q > 0.0 and q >= self.observed.density:
            raise ValueError(
                f"noise that adds {q:g} of all pairs leaves no real edge in a graph of density "
                f"{self.observed.density:g}; q must be smaller than the observed density"
            )
        self.trust.check(self.observed)

    @property
    def graph(self) -> Graph:
        return self.observed

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use."""
        return self.memo.once(key, build)

    @property
    def gain(self) -> float:
        """1/((1−p)r − qs): what trust in an edge counts, so that kept and spurious ones add up to the clean ones."""
        return 1.0 / ((1.0 - number(self.noise.p)) * self.trust.real - self.leak)

    @property
    def leak(self) -> float:
        """qs: what spurious edges weigh on average over all pairs."""
        return number(self.noise.q) * self.trust.spurious

    @remembered
    def spurious(self) -> Tensor:
        """Expected weight of spurious edges at each node, λ_i = qs a_i Σ_{j≠i} a_j, [n] in double precision."""
        ends = self.trust.factors(self.observed.num_nodes, self.observed.device)
        others = self.observed.per_node(self.observed.pool(ends)) - ends
        return self.leak * ends * others

    @remembered
    def seen(self) -> Tensor:
        """Trust in all edges of a node, its degree where all are trusted, [n] in double precision."""
        return self.observed.pattern.row_sum(self.trust.weights(self.observed.pattern.size, self.observed.device))

    @remembered
    def degree(self) -> Tensor:
        """Estimated clean degree of a node with at least one real edge, [n] in double precision; 0 without edges.

        The number of spurious edges S is Poisson(λ); given that k are observed and one of them is real, S ≤ k − 1, so
        k − E[S | S ≤ k − 1] = k − λ P(S ≤ k−2)/P(S ≤ k−1) are real, never less than one. The plain difference k − λ
        would be negative at a sixth of the nodes where λ is as large as the real degree. Sums of trust are taken for
        counts, with the incomplete gamma function between whole numbers.
        """
        kept = (1.0 - number(self.noise.p)) * self.trust.real
        return torch.where(self.observed.degree > 0, self._real / kept, 0.0)

    @remembered
    def share(self) -> Tensor:
        """E[S | k]/k: spurious edges at a node given its observed degree, over all it has, [n]."""
        return (self.seen - self._real).clamp(min=0.0) / torch.where(self.seen > 0, self.seen, 1.0)

    @remembered
    def excess(self) -> Tensor:
        """E[S | k]/λ: spurious edges at a node given its observed degree, over those expected before, [n]."""
        rate = self.spurious
        return torch.where(rate > 0, self.share * self.seen / torch.where(rate > 0, rate, 1.0), 0.0)

    @remembered
    def _real(self) -> Tensor:
        """k − E[S | S ≤ k − 1], at least 1, [n]."""
        seen, rate = self.seen, self.spurious.clamp(min=torch.finfo(torch.double).tiny)
        below = torch.special.gammaincc(seen.clamp(min=1.0), rate)  # P(S ≤ k−1)
        lower = torch.where(seen > 1, torch.special.gammaincc((seen - 1.0).clamp(min=1e-9), rate), 0.0)
        # So many spurious edges expected that the law has no mass left below k: one real edge is what can be said.
        known = below > 1e-290
        return torch.where(known, seen - rate * lower / torch.where(known, below, 1.0), 1.0).clamp(min=1.0)
