"""Any aggregation on views, without moments: a(G) + a(G') − a(G'') with two independent views has the mean a(G).

The combination acts on what ``propagate`` returns, before the layer's update. A layer with several steps has a pair of
views for each of them, at the same input: the steps before it are given to the layer as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.nn.context import Context
from rade.nn.edge_values import impute_added
from rade.nn.relations import Place, as_reverse_of
from rade.views import View

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

Draw = Callable[[int, int], tuple[Tensor, dict[str, Any]]]  # by step and number: edge_index of a view, values of edges
OfKind = Callable[[int, int], Tensor]  # by kind of edges and number: edge_index of those alone


class _Reached(Exception):
    """A layer on a view came to the step whose sum is wanted."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


def aggregate_pairs(conv: CorrectedConv, context: Context, graph: Graph | None, given: dict[str, Any]) -> Any:
    """The layer's output with every sum corrected by a pair of views; PyG's own where it has no edges to draw."""
    if "edge_index" not in conv._names:
        return _sum_by_sum(conv, context, given)
    drawing = _drawing(conv, context, graph, given)
    if drawing is None:
        context.note_plain(conv)  # type: ignore[arg-type]
        return conv._plain.forward(conv, **given)
    draw, of_kind = drawing
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

    def combine(edges: Any, aggregate: Any) -> Tensor:
        clean: Tensor = aggregate(edges)
        kind = len(steps)
        if _sums_kind(conv, given, edges, kind, aggregate):
            corrected: Tensor = clean + aggregate(of_kind(kind, 0)) - aggregate(of_kind(kind, 1))
        else:
            corrected = clean + sum_on(0) - sum_on(1)
        steps.append(corrected)
        return corrected

    return _summed_by(conv, combine, given)


def _summed_by(conv: Any, combine: Callable[[Any, Any], Tensor], given: dict[str, Any]) -> Any:
    """PyG's own forward, with ``combine`` in the place of every sum."""
    conv.__dict__["_paired"] = combine
    try:
        return conv._plain.forward(conv, **given)
    finally:
        del conv.__dict__["_paired"]


def _sum_by_sum(conv: CorrectedConv, context: Context, given: dict[str, Any]) -> Any:
    """For layers with edges of several kinds (positive and negative, by relation): views of what each sum gets.

    What such a layer hands over for each edge belongs to the clean one, so views of those are without additions.
    """
    layer: Any = conv
    between, steps = context.between(layer), count()

    def combine(edges: Any, aggregate: Any) -> Tensor:
        clean: Tensor = aggregate(edges)
        if not _is_list(edges):
            return clean
        step = next(steps)
        inputs = {name: value for name, value in aggregate.keywords.items() if name != "size"}
        of_edges = [name for name, value in inputs.items() if isinstance(value, Tensor) and name.startswith("edge_")]
        parts = _by_relation(conv, edges, given, _sizes(conv, {"x": None, **aggregate.keywords}, edges))

        def drawn(number: int) -> Tensor:
            views = [between(*part, (step, k), number, place) for k, (_, *part, place) in enumerate(parts)]
            kept = torch.cat([first + view.positions for (first, *_), view in zip(parts, views)])
            rows = {name: inputs[name][kept] for name in of_edges}
            added = views[0].added if len(parts) == 1 and not of_edges else edges[:, :0]
            found: Tensor = aggregate(torch.cat([edges[:, kept], added], 1), **rows)
            return found

        return clean + drawn(0) - drawn(1)

    return _summed_by(conv, combine, given)


def _by_relation(conv: Any, edges: Tensor, given: dict[str, Any], sizes: tuple[int, int]) -> list[tuple[Any, ...]]:
    """The relations that a layer sums over at once: position, edges, number of sources and targets, and its reverse."""
    relations, x = given.get("edge_index_dict", {}), given.get("x_dict", {})
    own = [name for name, value in relations.items() if value is edges]
    together = sum(value.shape[1] for value in relations.values() if _is_list(value))
    if not relations or (not own and edges.shape[1] != together):
        return [(0, edges, *sizes, None)]
    parts, first = [], 0
    for name in own[:1] or relations:
        back, value = conv._reverses.get(name), relations[name]
        place = None if back is None else Place((conv, name), (conv, back))
        parts.append((first, value, len(x[name[0]]), len(x[name[-1]]), place))
        first += value.shape[1]
    return parts


def _is_list(edge_index: Any) -> bool:
    """Whether it is a tensor of pairs, [2, E]."""
    return isinstance(edge_index, Tensor) and edge_index.layout == torch.strided and edge_index.dtype == torch.long


def _sums_kind(conv: Any, given: dict[str, Any], edges: Any, kind: int, aggregate: Any) -> bool:
    """Whether a layer sums over the edges of each kind by itself, in their order, as RGCN does, and is at this one.

    Such sums have one input, so a pair of views for each kind serves, and what came before need not be computed again.
    """
    kinds, whole = given.get("edge_type"), given["edge_index"]
    if kinds is None or not conv.__dict__.get("num_relations", 0) > 1 or not _is_list(edges) or edges is whole:
        return False
    handed = any(name.startswith("edge_") and value is not None for name, value in aggregate.keywords.items())
    return not handed and torch.equal(edges, whole[:, kinds == kind])


def _drawing(
    conv: CorrectedConv, context: Context, graph: Graph | None, given: dict[str, Any]
) -> tuple[Draw, OfKind] | None:
    """How views of a call's edges are drawn, of all or of one kind; None where there are none."""
    edge_index = given.get("edge_index")
    if not isinstance(edge_index, Tensor) or not _is_list(edge_index):
        return None
    sources, targets = _sizes(conv, given, edge_index)
    kinds = given.get("edge_type")
    if kinds is not None and sources == targets:
        parts = context.parts_of(edge_index, kinds, sources)
    elif sources == targets and not isinstance(given.get("x"), tuple):
        graph = context.graph_of(edge_index, sources) if graph is None else graph
        parts = [(torch.arange(edge_index.shape[1], device=edge_index.device), graph)]
    else:
        parts = []
    layer: Any = conv
    if not parts:
        between, place = context.between(layer), conv.__dict__.get("_place")
        alone = edge_index.new_zeros(targets)

        def draw_between(step: int, number: int) -> tuple[Tensor, dict[str, Any]]:
            at = None if place is None else Place((place.own, step), (place.reverse, step))
            view = between(edge_index, sources, targets, step, number, at)
            return _with_added(conv, given, edge_index, [(view.positions, view.added)], alone)

        def all_of_kind(kind: int, number: int) -> Tensor:
            found, values = draw_between(0, number)
            return found[:, values["edge_type"] == kind]

        return draw_between, all_of_kind
    finds = [context.views_for(layer, part, "views") for _, part in parts]
    order = [0] if kinds is None else kinds.unique().tolist()
    back = {kind: order.index(other) for kind, other in conv._reverses.items() if other in order}

    def part(k: int, step: int, number: int) -> tuple[Tensor, Tensor]:
        """The edges of the k-th kind that are kept, by position, and those that are added; the first of two tells."""
        view, reverse = cast(View, finds[k](step, number).view), back.get(order[k], k)
        if reverse < k:
            view = as_reverse_of(view, cast(View, finds[reverse](step, number).view))
        return parts[k][0][view.kept_as_given()], torch.stack([view.added.source, view.added.target])

    def draw(step: int, number: int) -> tuple[Tensor, dict[str, Any]]:
        found = [part(k, step, number) for k in range(len(parts))]
        return _with_added(conv, given, edge_index, found, parts[0][1].batch)

    def of_kind(kind: int, number: int) -> Tensor:
        if kind not in order:
            return edge_index[:, :0]
        kept, added = part(order.index(kind), 0, number)
        return torch.cat([edge_index[:, kept], added], 1)

    return draw, of_kind


def _sizes(conv: Any, given: dict[str, Any], edge_index: Tensor) -> tuple[int, int]:
    """How many nodes send, and how many receive."""
    x, size = given.get("x"), given.get("size")
    both = x if isinstance(x, tuple) else (x, x)
    rows = [None if part is None else part.shape[conv.node_dim] if part.dim() > 1 else len(part) for part in both]
    rows = [own if asked is None else asked for own, asked in zip(rows, size)] if size is not None else rows
    seen = [int(ends.max()) + 1 if ends.numel() else 0 for ends in edge_index]
    if not isinstance(x, tuple) and rows[0] is None:
        seen = [max(seen)] * 2
    return (seen[0] if rows[0] is None else rows[0], seen[1] if rows[1] is None else rows[1])


def _with_added(
    conv: CorrectedConv,
    given: dict[str, Any],
    edge_index: Tensor,
    parts: list[tuple[Tensor, Tensor]],
    batch: Tensor,
) -> tuple[Tensor, dict[str, Any]]:
    """The edges of a view, kept ones first, and what else the call has for each edge; ``batch`` is of the targets."""
    kept, added = torch.cat([kept for kept, _ in parts]), torch.cat([added for _, added in parts], 1)
    values = impute_added(conv, given, kept, batch[edge_index[1]], batch[added[1]])
    kinds = given.get("edge_type")
    if kinds is not None and len(parts) > 0 and "edge_type" in values:
        own = [kinds.unique()[k].expand(part.shape[1]) for k, (_, part) in enumerate(parts)]
        values["edge_type"] = torch.cat([kinds[kept], *own]) if len(own) == len(kinds.unique()) else values["edge_type"]
    return torch.cat([edge_index[:, kept], added], 1), values
