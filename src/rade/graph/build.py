"""From an ``edge_index`` to its `Graph`: validated and sorted once, then recalled while the tensors live unchanged."""

from __future__ import annotations

from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.memory import Recall


def graph_of(
    edge_index: object,
    num_nodes: int | None = None,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    known: Recall[Graph] | None = None,
    directed: bool = False,
) -> Graph:
    """The graph of whatever a caller passes as ``edge_index``; ``known`` is where it is recalled from."""
    if isinstance(edge_index, Adjacency):
        if directed and not edge_index.graph.directed:
            raise ValueError(
                "the graph was built as undirected, but its directions shall be drawn apart: build it with "
                "Graph.from_edge_index(..., directed=True), or leave out Views(directed=True)"
            )
        return edge_index.graph
    if isinstance(edge_index, Tensor):
        recall: Recall[Graph] = Recall() if known is None else known
        given = (edge_index, num_nodes, batch, ptr, directed)
        return recall.get((edge_index, batch, ptr), num_nodes, lambda: Graph.from_edge_index(*given))
    kind = type(edge_index).__name__
    raise ValueError(f"edge_index must be a tensor of shape [2, E] or a rade.Graph, got {kind}")
