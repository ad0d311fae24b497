"""Weights and attributes of edges as a caller gives them: in the graph's order, and what added edges have instead."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from rade.errors import choose
from rade.graph.graph import Graph
from rade.graph.sparse import row_pointer
from rade.moments.attention.scores import Attributes
from rade.moments.base import Coefficients
from rade.moments.normalised import Normalised
from rade.moments.weighted import Weighted, WeightedSymmetric
from rade.runtime import Recall

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

Imputed = Literal["mean", "zero", "frequent"] | Tensor
Build = Callable[[Tensor, Tensor | float], Coefficients]  # from weights in the graph's order, and that of additions
NOT_OF_EDGES = ("edge_index", "x", "pos", "batch")  # whatever number of rows these arguments have
FILLS = ("mean", "add", "sum")  # the attributes of self-loops that PyG can compute, and RADE too

_listed: Recall[Tensor] = Recall()
_weighs: Recall[bool] = Recall()


def listed_edges(names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a layer, named ``names``, with the edges of a transposed sparse adjacency (``adj_t``) as a list.

    Its entries are weights where they are not all one. Layers that take none read them each in its way: those keep the
    matrix, and PyG's own code runs.
    """
    matrix = given["edge_index"]
    place: tuple[Tensor, ...]
    if matrix.layout == torch.sparse_csr:
        place, values = (matrix.crow_indices(), matrix.col_indices()), matrix.values()
    elif matrix.layout == torch.sparse_coo and matrix.is_coalesced():
        place, values = (matrix.indices(),), matrix.values()
    else:
        return given
    weighs = _weighs.get((values,), None, lambda: not bool((values == 1).all()))
    if weighs and ("edge_weight" not in names or values.dim() > 1):
        return given

    def build() -> Tensor:  # a message from column j to row i
        if len(place) == 1:
            return place[0].flip(0)
        rows = torch.arange(len(place[0]) - 1, device=matrix.device).repeat_interleave(place[0].diff())
        return torch.stack([place[1].long(), rows])

    weight = {"edge_weight": values} if weighs else {}
    return {**given, "edge_index": _listed.get(place, None, build), **weight}


def in_order(graph: Graph, edge_weight: Tensor) -> Tensor:
    """One weight for each entry of the graph's pattern, [E]; ``edge_weight`` [E] or [E, 1] follows the caller's."""
    if edge_weight.shape not in ((graph.num_given,), (graph.num_given, 1)):
        raise ValueError(
            f"edge_weight must hold one number for each of the {graph.num_given} entries of edge_index, got "
            f"{list(edge_weight.shape)}; a layer that takes several per edge has no meaning for added edges"
        )
    return edge_weight.view(-1)[graph.order]


def weighted(base: Normalised, edge_weight: Tensor | None, added: float | None) -> Coefficients:
    """``base`` with weights; added edges weigh ``added``, by default as much as edges of their graph on average."""
    if edge_weight is None:
        return base
    what = (base.key, added)
    return _kept(base.graph, edge_weight, added, what, lambda weight, other: Weighted(base, weight, other))


def symmetric(
    graph: Graph, x: Tensor, edge_weight: Tensor | None, loop: float, normalize: bool = True, added: float | None = None
) -> Coefficients:
    """e_ij/√(d_i d_j), with self-loops of weight ``loop`` in the degrees, or plain (weighted) sums."""
    if not normalize:
        return weighted(Normalised.sum(graph, x.dtype), edge_weight, added)
    if edge_weight is None:
        return Normalised.symmetric(graph, x.dtype, loop)

    def build(weight: Tensor, other: Tensor | float) -> Coefficients:
        if loop == 0.0 and isinstance(other, float | int) and not 0.0 < other < float("inf"):
            raise ValueError(f"added edges must weigh something without self-loops, got added_weight = {other}")
        return WeightedSymmetric(graph, x.dtype, weight, other, loop)

    return _kept(graph, edge_weight, added, (x.dtype, loop, added), build)


def has_positive_weights(graph: Graph, edge_weight: Tensor) -> bool:
    """Whether weighted degrees have moments: all weights positive and finite; looked at once for each tensor."""
    return bool(_once(graph, edge_weight, "positive", lambda: ((edge_weight > 0) & (edge_weight < torch.inf)).all()))


def _kept(graph: Graph, edge_weight: Tensor, added: float | None, what: Hashable, build: Build) -> Coefficients:
    """Layers on the same constant weights share their coefficients, and with them the moments."""

    def built() -> Coefficients:
        weight = in_order(graph, edge_weight)
        return build(weight, imputed(graph, weight, "mean", without=1.0) if added is None else added)

    found: Coefficients = _once(graph, edge_weight, what, built)
    return found


def _once(graph: Graph, edge_weight: Tensor, what: Hashable, build: Callable[[], Any]) -> Any:
    """What is found of a graph with weights; those that are learned change in every step."""
    known: Recall[Any] = graph.cache.setdefault("weights", Recall())
    return build() if edge_weight.requires_grad else known.get((edge_weight,), what, build)


def attributes_in_order(graph: Graph, edge_attr: Tensor | None, layer: str) -> Tensor:
    """One row for each entry of the graph's pattern, [E, D]; ``edge_attr`` [E, D] or [E] follows the caller's order."""
    given = graph.num_given
    if edge_attr is None or edge_attr.dim() not in (1, 2) or len(edge_attr) != given:
        got = "None" if edge_attr is None else list(edge_attr.shape)
        raise ValueError(
            f"{layer} needs edge_attr with one row for each of the {given} entries of edge_index, got {got}"
        )
    return (edge_attr if edge_attr.dim() == 2 else edge_attr[:, None])[graph.order]


def imputed(graph: Graph, attributes: Tensor, how: Imputed, without: float = 0.0) -> Tensor:
    """What an added edge of each node's graph has in place of ``attributes`` [E, ...], as [n, ...].

    how: ``"mean"`` over the edges of the graph, ``without`` if it has none; ``"zero"``; ``"frequent"``, its most
        frequent row, for categories, zero without edges; or a row of one's own, [D].
    """
    if not isinstance(how, Tensor):
        choose("added_attr", how, ("mean", "zero", "frequent"))
    if how == "mean" and not attributes.is_floating_point() and len(attributes):
        raise ValueError("categories in edge_attr have no mean; added_attr='frequent' takes the most frequent one")
    usual = _usual(attributes, how, graph.batch[graph.pattern.target], graph.num_graphs, without)
    return usual.index_select(0, graph.batch)


def _usual(values: Tensor, how: Imputed, graph_of_edge: Tensor, graphs: int, without: float) -> Tensor:
    """What represents the values of each graph's edges, [E, ...] → [B, ...]; categories have no mean."""
    if isinstance(how, Tensor):
        return how.to(values).expand(graphs, *values.shape[1:])
    if how == "mean" and values.is_floating_point():
        count = torch.bincount(graph_of_edge, minlength=graphs).view(-1, *[1] * (values.dim() - 1))
        sums = values.new_zeros(graphs, *values.shape[1:]).index_add(0, graph_of_edge, values)
        return torch.where(count > 0, sums / count.clamp(min=1), without)
    if how == "zero" or not len(values):
        return values.new_zeros(graphs, *values.shape[1:])
    return _most_frequent(values.view(len(values), -1), graph_of_edge, graphs).view(graphs, *values.shape[1:])


def _most_frequent(values: Tensor, graph_of_edge: Tensor, graphs: int) -> Tensor:
    """The most frequent row of each graph's edges, the first in order among equals, [E, D] → [B, D]."""
    rows, row_of = torch.unique(values.detach(), dim=0, return_inverse=True)
    entry = torch.arange(len(values), device=values.device)
    first = torch.full((len(rows),), len(values), device=values.device).scatter_reduce(0, row_of, entry, "amin")
    found, count = torch.unique(graph_of_edge * len(rows) + row_of, return_counts=True)
    order = count.argsort(descending=True, stable=True)
    order = order[(found[order] // len(rows)).argsort(stable=True)]  # graph by graph, the most frequent first
    pointer = row_pointer(found // len(rows), graphs)
    best = found[order[pointer[:-1].clamp(max=len(found) - 1)]] % len(rows)
    usual = values.index_select(0, first[best])  # entries themselves, with their derivatives
    return torch.where((pointer.diff() > 0).view(-1, 1), usual, torch.zeros_like(usual))


def with_loops(
    graph: Graph, edge_attr: Tensor | None, layer: str, how: Imputed, fill: object, term: Callable[[Tensor], Tensor]
) -> Attributes:
    """``term`` of the attributes of edges, of loops as PyG fills them, and of what is imputed to added edges.

    fill: one of ``FILLS``, over the edges that a node receives on the clean graph, a number, or a row [D].
    """
    attributes = attributes_in_order(graph, edge_attr, layer)
    loops = term(_loop_attributes(graph, attributes, fill))
    return Attributes(term(attributes), loops, term(imputed(graph, attributes, how)))


def _loop_attributes(graph: Graph, attributes: Tensor, fill: object) -> Tensor:
    if isinstance(fill, Tensor):
        return fill.to(attributes).expand(graph.num_nodes, attributes.shape[1])
    if isinstance(fill, int | float):
        return attributes.new_full((graph.num_nodes, attributes.shape[1]), fill)
    sums = graph.pattern.row_sum(attributes)
    return sums / graph.degree.clamp(min=1)[:, None] if fill == "mean" else sums


def against_fill(conv: Any) -> str:
    """Why the attributes that PyG's layer gives to its own self-loops are none that `with_loops` knows, "" if so."""
    fills = conv.add_self_loops and conv.lin_edge is not None and isinstance(conv.fill_value, str)
    return f"fill_value={conv.fill_value!r} has none" if fills and conv.fill_value not in FILLS else ""


def impute_added(
    conv: CorrectedConv, given: dict[str, Any], kept: Tensor, of_edge: Tensor, of_added: Tensor, nodes: tuple[int, ...]
) -> dict[str, Any]:
    """Arguments that have a row for each edge, for a view: those of kept edges, and imputed ones of additions.

    These are the layer's own choice, or what is usual in their graph, as for layers with moments.

    kept: positions of these edges; of_edge, of_added: the graph of each given edge and of each addition.
    nodes: how many send and receive; where there are as many edges, only the name, edge_*, says what a value is of.
    """
    edges = len(of_edge)
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor) and value.dim() > 0}
    rest = {name: value for name, value in tensors.items() if name not in NOT_OF_EDGES and len(value) == edges}
    named = {name: value for name, value in rest.items() if name.startswith("edge_") or edges not in nodes}
    if not named:
        return {}
    ends = torch.cat([of_edge, of_added])
    graphs, found = int(ends.max()) + 1 if ends.numel() else 1, {}
    for name, value in named.items():
        how = conv.added_attr
        if name == "edge_weight":
            how = "mean" if conv.added_weight is None else torch.tensor(conv.added_weight)
        usual = _usual(value, how, of_edge, graphs, float(name == "edge_weight"))
        found[name] = torch.cat([value[kept], usual[of_added]])
    return found
