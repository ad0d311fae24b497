"""Any aggregation on views, without moments: a(G) + a(G') − a(G'') with two independent views has the mean a(G).

The combination acts on what ``propagate`` returns, before the layer's update. A layer with several steps has a pair of
views for each of them, at the same input: the steps before it are given to the layer as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.nn.context import Context
from rade.nn.edge_values import impute_added

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

Draw = Callable[[int, int], tuple[Tensor, dict[str, Any]]]  # by step and number: edge_index of a view, values of edges


class _Reached(Exception):
    """A layer on a view came to the step whose sum is wanted."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


def aggregate_pairs(conv: CorrectedConv, context: Context, graph: Graph | None, given: dict[str, Any]) -> Any:
    """The layer's output with every sum corrected by a pair of views; PyG's own where it has no edges to draw."""
    draw = _drawing(conv, context, graph, given)
    if draw is None:
        context.note_plain(conv)  # type: ignore[arg-type]
        return conv._plain.forward(conv, **given)
    layer: Any = conv
    steps: list[Tensor] = []
    begin = torch.get_rng_state()

    def sum_on(number: int) -> Tensor:
        """What the layer sums on a view in the present step, with the steps before it as they are."""
        edge_index, values = draw(len(steps), number)
        earlier = iter(list(steps))

        def until_step(edges: Any, aggregate: Callable[[Any], Tensor]) -> Tensor:
            known = next(earlier, None)
            if known is None:
                raise _Reached(aggregate(edges))
            return known

        layer.__dict__["_paired"] = until_step
        state = torch.get_rng_state()
        torch.set_rng_state(begin)  # dropout of features, not of views
        try:
            conv._plain.forward(layer, **{**given, **values, "edge_index": edge_index})
        except _Reached as reached:
            return reached.value
        finally:
            torch.set_rng_state(state)
            layer.__dict__["_paired"] = combine
        raise RuntimeError(f"{type(conv).__name__} takes fewer steps on a view than on its graph")

    def combine(edges: Any, aggregate: Callable[[Any], Tensor]) -> Tensor:
        clean = aggregate(edges)
        corrected = clean + sum_on(0) - sum_on(1)
        steps.append(corrected)
        return corrected

    layer.__dict__["_paired"] = combine
    try:
        return conv._plain.forward(layer, **given)
    finally:
        del layer.__dict__["_paired"]


def _drawing(conv: CorrectedConv, context: Context, graph: Graph | None, given: dict[str, Any]) -> Draw | None:
    """How views of a call's edges are drawn; None where there are none."""
    edge_index, x = given.get("edge_index"), given.get("x")
    if isinstance(edge_index, Graph):
        graph, edge_index = edge_index, edge_index.edge_index
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided or edge_index.dtype != torch.long:
        return None
    if graph is None and isinstance(x, Tensor):
        graph = context.graph_of(edge_index, x.shape[-2] if x.dim() > 1 else x.shape[0])
    if graph is None:
        return None
    whole, edges = graph, edge_index
    find = context.views_for(conv, whole, "views")  # type: ignore[arg-type]

    def draw(step: int, number: int) -> tuple[Tensor, dict[str, Any]]:
        view = find(step, number).view
        assert view is not None
        kept = view.kept_as_given().nonzero().squeeze(1)
        added = torch.stack([view.added.source, view.added.target])
        values = impute_added(conv, given, edges.shape[1], kept, whole.batch[view.added.target])
        return torch.cat([edges[:, kept], added], 1), values

    return draw
