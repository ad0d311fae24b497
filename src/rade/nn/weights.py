"""Edge weights as a caller gives them: checked, in the graph's order, and what an added edge weighs."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.memory import Recall
from rade.moments import Coefficients, Weighted, WeightedSymmetric

Build = Callable[[Tensor, Tensor | float], Coefficients]  # from weights in the graph's order, and that of additions


def in_order(graph: Graph, edge_weight: Tensor) -> Tensor:
    """One weight for each entry of the graph's pattern, [E]; ``edge_weight`` [E] or [E, 1] follows the caller's."""
    given = graph.pattern.size + graph.self_loops
    if edge_weight.shape not in ((given,), (given, 1)):
        raise ValueError(
            f"edge_weight must hold one number for each of the {given} entries of edge_index, got "
            f"{list(edge_weight.shape)}; a layer that takes several per edge has no meaning for added edges"
        )
    return edge_weight.view(-1)[graph.order]


def edge_mean(graph: Graph, values: Tensor, without: float = 0.0) -> Tensor:
    """The mean over the edges of each node's graph, [E, ...] → [n, ...]; ``without`` for a graph without edges."""
    entries = graph.entry_ptr.diff().view(-1, *[1] * (values.dim() - 1))
    of_entry = graph.batch[graph.pattern.target]
    sums = values.new_zeros(graph.num_graphs, *values.shape[1:]).index_add(0, of_entry, values)
    mean = torch.where(entries > 0, sums / entries.clamp(min=1), without)
    return mean.index_select(0, graph.batch)


def weighted(base: Coefficients, graph: Graph, edge_weight: Tensor, added: float | None) -> Coefficients:
    """``base`` with weights; added edges weigh ``added``, by default as much as edges of their graph on average."""
    _refuse_loops(graph, "are summed like edges")
    what = (type(base), base.dtype, added)
    return _kept(graph, edge_weight, added, what, lambda weight, other: Weighted(base, weight, other))


def weighted_symmetric(
    graph: Graph, dtype: torch.dtype, edge_weight: Tensor, loop: float, added: float | None
) -> Coefficients:
    """e_ij/√(d_i d_j) with weighted degrees; added edges weigh as in `weighted`."""

    def build(weight: Tensor, other: Tensor | float) -> Coefficients:
        if not bool(((weight > 0) & (weight < torch.inf)).all()):
            wrong = weight.detach()[~((weight > 0) & (weight < torch.inf))]
            raise ValueError(
                f"edge_weight must be positive and finite where degrees are weighted, got {float(wrong[0]):.3g}; leave "
                "out edges of weight 0, or use GraphConv, which takes any weights"
            )
        if loop == 0.0 and isinstance(other, float | int) and not 0.0 < other < float("inf"):
            raise ValueError(f"added edges must weigh something without self-loops, got added_weight = {other}")
        return WeightedSymmetric(graph, dtype, weight, other, loop)

    _refuse_loops(graph, "may count in degrees")
    return _kept(graph, edge_weight, added, (WeightedSymmetric, dtype, loop, added), build)


def _refuse_loops(graph: Graph, what: str) -> None:
    if graph.self_loops:
        raise ValueError(
            f"edge_index holds {graph.self_loops} self-loops, whose weights {what} and which views leave "
            "out; remove them with torch_geometric.utils.remove_self_loops(edge_index, edge_weight), and let the layer "
            "normalise where a transform (GCNNorm) did"
        )


def _kept(graph: Graph, edge_weight: Tensor, added: float | None, what: Hashable, build: Build) -> Coefficients:
    """Layers on the same constant weights share their coefficients, and with them the moments."""

    def built() -> Coefficients:
        weight = in_order(graph, edge_weight)
        return build(weight, edge_mean(graph, weight, without=1.0) if added is None else added)

    known: Recall[Coefficients] = graph.once("weighted", Recall)
    return built() if edge_weight.requires_grad else known.get((edge_weight,), what, built)
