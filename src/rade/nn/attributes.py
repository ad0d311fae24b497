"""Edge attributes as a caller gives them: checked, in the graph's order, and what an added edge has in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from rade.errors import choose
from rade.graph.graph import Graph
from rade.graph.sparse import row_pointer
from rade.moments.attention.scores import Attributes
from rade.nn.weights import edge_mean

Imputed = Literal["mean", "zero", "frequent"] | Tensor


def attributes_in_order(graph: Graph, edge_attr: Tensor | None, layer: str) -> Tensor:
    """One row for each entry of the graph's pattern, [E, D]; ``edge_attr`` [E, D] or [E] follows the caller's order."""
    given = graph.pattern.size + graph.self_loops
    if edge_attr is None or edge_attr.dim() not in (1, 2) or len(edge_attr) != given:
        got = "None" if edge_attr is None else list(edge_attr.shape)
        raise ValueError(
            f"{layer} needs edge_attr with one row for each of the {given} entries of edge_index, got {got}"
        )
    return edge_attr.view(given, -1)[graph.order]


def imputed(graph: Graph, attributes: Tensor, how: Imputed) -> Tensor:
    """What an added edge of each node's graph has in place of ``attributes`` [E, D], as [n, D].

    how: ``"mean"`` over the edges of the graph; ``"zero"``; ``"frequent"``, its most frequent row, for categories; or a
        row of one's own, [D]. Zero in a graph without edges.
    """
    if isinstance(how, Tensor):
        return how.to(attributes).expand(graph.num_nodes, attributes.shape[1])
    choose("added_attr", how, ("mean", "zero", "frequent"))
    if how == "zero" or not len(attributes):
        return attributes.new_zeros(graph.num_nodes, attributes.shape[1])
    if how == "mean":
        if not attributes.is_floating_point():
            raise ValueError("categories in edge_attr have no mean; added_attr='frequent' takes the most frequent one")
        return edge_mean(graph, attributes)
    return _most_frequent(graph, attributes)


def _most_frequent(graph: Graph, attributes: Tensor) -> Tensor:
    """The most frequent row of each graph's edges, the first in order among equals, [n, D]."""
    rows, row_of = torch.unique(attributes.detach(), dim=0, return_inverse=True)
    entry = torch.arange(len(attributes), device=graph.device)
    first = torch.full((len(rows),), len(attributes), device=graph.device).scatter_reduce(0, row_of, entry, "amin")
    found, count = torch.unique(graph.batch[graph.pattern.target] * len(rows) + row_of, return_counts=True)
    order = count.argsort(descending=True, stable=True)
    order = order[(found[order] // len(rows)).argsort(stable=True)]  # graph by graph, the most frequent first
    pointer = row_pointer(found // len(rows), graph.num_graphs)
    best = found[order[pointer[:-1].clamp(max=len(found) - 1)]] % len(rows)
    values = attributes.index_select(0, first[best])  # entries themselves, with their derivatives
    some = (pointer.diff() > 0).view(-1, 1)
    return torch.where(some, values, torch.zeros_like(values)).index_select(0, graph.batch)


def with_loops(
    graph: Graph, edge_attr: Tensor | None, layer: str, how: Imputed, fill: object, term: Callable[[Tensor], Tensor]
) -> Attributes:
    """``term`` of the attributes of edges, of loops as PyG fills them, and of what is imputed to added edges.

    fill: ``"mean"`` or ``"add"`` over the edges that a node receives on the clean graph, a number, or a row [D].
    """
    attributes = attributes_in_order(graph, edge_attr, layer)
    return Attributes(
        term(attributes), term(_loop_attributes(graph, attributes, layer, fill)), term(imputed(graph, attributes, how))
    )


def _loop_attributes(graph: Graph, attributes: Tensor, layer: str, fill: object) -> Tensor:
    if isinstance(fill, Tensor):
        return fill.to(attributes).expand(graph.num_nodes, attributes.shape[1])
    if isinstance(fill, int | float):
        return attributes.new_full((graph.num_nodes, attributes.shape[1]), fill)
    if fill not in ("mean", "add"):
        raise ValueError(
            f"{layer}(fill_value={fill!r}) is not supported on random views; use fill_value='mean', 'add' or a number"
        )
    sums = graph.pattern.row_sum(attributes)
    return sums if fill == "add" else sums / graph.degree.clamp(min=1)[:, None]
