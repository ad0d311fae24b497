"""What layers of symmetric steps share: their coefficients, with or without edge weights, and chains of them."""

from __future__ import annotations

from torch import Tensor

from rade.correction import propagate
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sum, Symmetric
from rade.nn.base import CorrectedConv
from rade.nn.weights import weighted, weighted_symmetric


def symmetric(
    graph: Graph,
    x: Tensor,
    edge_weight: Tensor | None,
    loop: float,
    normalize: bool = True,
    added: float | None = None,
) -> Coefficients:
    """e_ij/√(d_i d_j), with self-loops of weight ``loop``, or plain (weighted) sums."""
    if not normalize:
        base = Sum(graph, x.dtype)
        return base if edge_weight is None else weighted(base, graph, edge_weight, added)
    if edge_weight is None:
        return Symmetric(graph, x.dtype, loop)
    return weighted_symmetric(graph, x.dtype, edge_weight, loop, added)


def hops(conv: CorrectedConv, adjacency: Adjacency, coefficients: Coefficients, x: Tensor, count: int) -> list[Tensor]:
    """x and its aggregations, once to ``count`` times; every step has a view of its own."""
    found = [x]
    for step in range(count):
        found.append(conv.send(adjacency, coefficients, found[-1], step))
    return found


def clean_hops(graph: Graph, coefficients: Coefficients, x: Tensor, count: int) -> Tensor:
    """``count`` clean aggregations of x."""
    for _ in range(count):
        x = propagate(graph, coefficients, x)
    return x
