"""Edge weights as a caller gives them: checked, in the graph's order, and what an added edge weighs."""

from __future__ import annotations

from torch import Tensor

from rade.graph.graph import Graph
from rade.moments import Coefficients, Weighted


def in_order(graph: Graph, edge_weight: Tensor) -> Tensor:
    """One weight for each entry of the graph's pattern, [E]; ``edge_weight`` [E] or [E, 1] follows the caller's."""
    given = graph.pattern.size + graph.self_loops
    if edge_weight.shape not in ((given,), (given, 1)):
        raise ValueError(
            f"edge_weight must hold one number for each of the {given} entries of edge_index, got "
            f"{list(edge_weight.shape)}; a layer that takes several per edge has no meaning for added edges"
        )
    return edge_weight.view(-1)[graph.order]


def weighted(base: Coefficients, graph: Graph, edge_weight: Tensor, added: float | None) -> Coefficients:
    """``base`` with weights; added edges weigh ``added``, by default as much as edges do on average."""
    weight = in_order(graph, edge_weight)
    mean = weight.mean() if weight.numel() else weight.new_ones(())
    return Weighted(base, weight, mean if added is None else added)
