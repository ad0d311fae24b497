"""The aggregators under check: what is added to ``EXACT`` or ``ALL`` is tested by every check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.moments.attention.attention import Attention
from rade.moments.attention.scores import Attributes
from rade.moments.base import Coefficients
from rade.moments.normalised import Normalised
from rade.moments.weighted import Weighted, WeightedSymmetric
from rade.testing.oracle import Build, Carry

Make = Callable[[Graph, torch.dtype], Coefficients]


@dataclass(frozen=True)
class Aggregator:
    """An aggregator with all that a check must know of it.

    Attributes:
        name: for messages.
        on: fixes scores or edge weights for a base graph, and builds the coefficients on it and on copies of it.
            `plain` makes it of a class whose coefficients depend on the graph alone.
        tolerance: relative error of means and, relative to E[α'²], of variances; 1e-8 for exact moments.
        heads: how many, where coefficients have a head axis; None without one.
        costly: whether moments cost much for each edge; the case of 32,768 views is then left out.
        meets: whether `covariance` covers non-edges, as pooling needs; False only where it cannot be told.
        shares: whether the two directions of a pair share a normalisation; drawn apart, on a directed graph, they
            covary through it, which pooling leaves out like all that shares a normalisation (Prop. 3).
    """

    name: str
    on: Callable[[Graph], Build]
    tolerance: float
    heads: int | None = None
    costly: bool = False
    meets: bool = True
    shares: bool = False

    def alone(self, graph: Graph, dtype: torch.dtype = torch.double) -> Coefficients:
        """The coefficients on a base graph itself."""
        return self.on(graph)(graph, lambda values: values, dtype)

    def messages(self, graph: Graph, features: int = 3, seed: int = 5) -> Tensor:
        """Normal messages of the shape it sums, [n, F] or [n, H, F]."""
        heads = () if self.heads is None else (self.heads,)
        return normal(graph.num_nodes, *heads, features, seed=seed)

    def __str__(self) -> str:
        return self.name


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in double precision, the same on every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def plain(make: Make) -> Callable[[Graph], Build]:
    """Coefficients that depend on the graph alone: ``make(graph, dtype)``, as the class of most aggregators does."""
    return lambda base: lambda graph, carry, dtype: make(graph, dtype)


def carried(
    values: Callable[[Graph], Sequence[Tensor]], make: Callable[..., Coefficients]
) -> Callable[[Graph], Build]:
    """``make(graph, *values)`` of values of nodes and of edges that are fixed for a base graph."""

    def on(base: Graph) -> Build:
        known = values(base)

        def build(graph: Graph, carry: Carry, dtype: torch.dtype) -> Coefficients:
            return make(graph, *(carry(value).to(dtype) for value in known))

        return build

    return on


def weighted(make: Make) -> Callable[[Graph], Build]:
    """Weights of both signs, different in the two directions of an edge."""
    return carried(
        lambda base: [normal(base.pattern.size, seed=1)],
        lambda graph, weight: Weighted(make(graph, weight.dtype), weight),
    )


def weighted_symmetric(loop: float, deviation: float) -> Callable[[Graph], Build]:
    """Weights e^x with normal x of that standard deviation, different in the two directions of an edge."""
    return carried(
        lambda base: [(deviation * normal(base.pattern.size, seed=1)).exp()],
        lambda graph, weight: WeightedSymmetric(graph, weight.dtype, weight, 1.3, loop),
    )


def attention(heads: int, self_loops: bool, scale: float = 1.0, slope: float = 0.2) -> Callable[[Graph], Build]:
    """Normal scores of standard deviation ``scale``: s_j + t_i, each half of the variance."""
    return carried(
        lambda base: (scale * 0.5**0.5 * normal(2, base.num_nodes, heads, seed=2)).unbind(0),
        lambda graph, s, t: Attention(graph, s, t, slope, self_loops),
    )


def attention_with_attributes() -> Callable[[Graph], Build]:
    """Normal scores of nodes and of edges, with self-loops; one head."""
    return carried(
        lambda base: [*normal(2, base.num_nodes, 1, seed=3).unbind(0), normal(base.pattern.size, 1, seed=4)],
        lambda graph, s, t, edges: Attention(graph, s, t, self_loops=True, extra=Attributes(edges, 0.5, -0.5)),
    )


EXACT = [
    Aggregator("sum", plain(Normalised.sum), 1e-10),
    Aggregator("weighted-sum", weighted(Normalised.sum), 1e-10),
    Aggregator("symmetric", plain(Normalised.symmetric), 1e-8, shares=True),
    Aggregator("symmetric-improved", plain(partial(Normalised.symmetric, loop=2.0)), 1e-8, shares=True),
    Aggregator("symmetric-no-loop", plain(partial(Normalised.symmetric, loop=0.0)), 1e-8, shares=True),
    Aggregator("mean", plain(Normalised.mean_of), 1e-8),
    Aggregator("mean-loop", plain(partial(Normalised.mean_of, loop=1.0, gain=1.5)), 1e-8),
    Aggregator("weighted-mean", weighted(Normalised.mean_of), 1e-8),
    Aggregator("weighted-symmetric", weighted_symmetric(1.0, 0.5), 1e-8, costly=True, shares=True),
    Aggregator("weighted-symmetric-no-loop", weighted_symmetric(0.0, 1.0), 1e-8, costly=True, shares=True),
]
# Attention's moments are exact up to its lattice: 1e-5 for means, 9e-5 for squares. How the two directions of a
# non-edge covary has no closed sum over all pairs; they count as independent (docs/theory.md).
ATTENTION = [
    Aggregator("attention", attention(1, False), 1e-4, heads=1, meets=False),
    Aggregator("attention-loops", attention(1, True), 1e-4, heads=1, meets=False),
    Aggregator("attention-two-heads", attention(2, True), 1e-4, heads=2, meets=False),
    Aggregator("attention-attributes", attention_with_attributes(), 1e-4, heads=1, meets=False),
]
ALL = EXACT + ATTENTION
