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

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Observed(Adjacency):
    """An observed graph A' as a noisy view of an unknown clean one: edges were lost with p, non-edges appeared with q.

    Aggregation over it estimates that of the clean graph. Every pair is weighed by the unbiased (A'_ij − q)/(1−p−q),
    and normalisations use an estimate of the clean degree.
    """

    observed: Graph
    noise: Rates
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

    @property
    def graph(self) -> Graph:
        """The observed graph."""
        return self.observed

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use."""
        return self.memo.once(key, build)

    @property
    def gain(self) -> float:
        """1/(1−p−q): what an observed edge counts, so that kept and spurious ones add up to the clean ones."""
        return 1.0 / (1.0 - number(self.noise.p) - number(self.noise.q))

    @remembered
    def spurious(self) -> Tensor:
        """Expected number of spurious edges at each node, λ_i = q (n_i − 1), [n] in double precision."""
        return number(self.noise.q) * (self.observed.size - 1).double()

    @remembered
    def degree(self) -> Tensor:
        """Estimated clean degree of a node with at least one real edge, [n] in double precision; 0 without edges.

        The number of spurious edges S is Poisson(λ); given that k are observed and one of them is real, S ≤ k − 1, so
        k − E[S | S ≤ k − 1] = k − λ P(S ≤ k−2)/P(S ≤ k−1) are real, never less than one. The plain difference k − λ
        would be negative at a sixth of the nodes where λ is as large as the real degree.
        """
        seen, rate = self.observed.degree.double(), self.spurious.clamp(min=torch.finfo(torch.double).tiny)
        below = torch.special.gammaincc(seen.clamp(min=1.0), rate)  # P(S ≤ k−1)
        lower = torch.where(seen > 1, torch.special.gammaincc((seen - 1.0).clamp(min=0.5), rate), 0.0)
        real = torch.where(below > 1e-290, seen - rate * lower / below.clamp(min=1e-290), 1.0).clamp(min=1.0)
        return torch.where(seen > 0, real / (1.0 - number(self.noise.p)), 0.0)
