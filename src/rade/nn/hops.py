"""What layers of several symmetric steps share: their coefficients, and which calls they refuse."""

from __future__ import annotations

from torch import Tensor

from rade.correction import propagate
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sum, Symmetric
from rade.nn.base import CorrectedConv


def symmetric(graph: Graph, x: Tensor, loops: bool, normalize: bool = True) -> Coefficients:
    """1/√(d_i d_j), with or without self-loops, or plain sums."""
    return Symmetric(graph, x.dtype, 1.0 if loops else 0.0) if normalize else Sum(graph, x.dtype)


def refuse_weights(conv: CorrectedConv, edge_weight: Tensor | None) -> None:
    """Weighted degrees have no moments here."""
    if edge_weight is not None:
        name = type(conv).__name__
        raise ValueError(
            f"{name} with edge_weight is not supported on a Graph or View: its degrees would be "
            "weighted; use GraphConv "
            "for weighted edges, or leave edge_weight out"
        )


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
