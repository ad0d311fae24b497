"""The aggregators under law: one that is added to ``EXACT`` or ``ALL`` is tested by every law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oracle import Build, Repeat
from rade.graph.graph import Graph
from rade.moments import Attention, Coefficients, Mean, Sum, Symmetric, Weighted


@dataclass(frozen=True)
class Aggregator:
    """``on(graph)`` fixes scores or edge weights for a graph and builds the coefficients on it and on its copies."""

    name: str
    on: Callable[[Graph], Build]
    tolerance: float  # relative error of means and, relative to E[α'²], of variances
    heads: int | None = None

    def __str__(self) -> str:
        return self.name


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def plain(make: Callable[[Graph], Coefficients]) -> Callable[[Graph], Build]:
    """Coefficients that depend on the graph alone."""
    return lambda base: lambda graph, repeat: make(graph)


def weighted(make: Callable[[Graph], Coefficients]) -> Callable[[Graph], Build]:
    """Weights of both signs, different in the two directions of an edge."""

    def on(base: Graph) -> Build:
        weight = normal(base.pattern.size, seed=1)
        return lambda graph, repeat: Weighted(make(graph), repeat(weight))

    return on


def attention(
    heads: int, self_loops: bool, scale: float = 1.0, slope: float = 0.2, seed: int = 2
) -> Callable[[Graph], Build]:
    """Normal scores of standard deviation ``scale``: s_j + t_i, each half of the variance."""

    def on(base: Graph) -> Build:
        s, t = scale * 0.5**0.5 * normal(2, base.num_nodes, heads, seed=seed)

        def build(graph: Graph, repeat: Repeat) -> Coefficients:
            return Attention(graph, repeat(s), repeat(t), slope, self_loops)

        return build

    return on


def sums(graph: Graph) -> Coefficients:
    return Sum(graph, torch.double)


def means(graph: Graph) -> Coefficients:
    return Mean(graph, torch.double)


def symmetric(loop: float) -> Callable[[Graph], Coefficients]:
    return lambda graph: Symmetric(graph, torch.double, loop)


EXACT = [
    Aggregator("sum", plain(sums), 1e-10),
    Aggregator("weighted-sum", weighted(sums), 1e-10),
    Aggregator("symmetric", plain(symmetric(1.0)), 1e-8),
    Aggregator("symmetric-improved", plain(symmetric(2.0)), 1e-8),
    Aggregator("symmetric-no-loop", plain(symmetric(0.0)), 1e-8),
    Aggregator("mean", plain(means), 1e-8),
    Aggregator("weighted-mean", weighted(means), 1e-8),
]
# Attention has the paper's second-order moments: its errors are stated in test_attention.py.
ATTENTION = [
    Aggregator("attention", attention(1, False), 1.0, heads=1),
    Aggregator("attention-loops", attention(1, True), 1.0, heads=1),
    Aggregator("attention-two-heads", attention(2, True), 1.0, heads=2),
]
ALL = EXACT + ATTENTION
