"""Every aggregation on views, without moments: a(G) + a(G') − a(G'') with two independent views has the mean a(G).

Without correction (``variant="none"``) it is a(G'): PyG's layer on the edges of a view.

The combination acts on what ``propagate`` returns, before the layer's update. A layer with several steps has a pair of
views for each of them, at the same input: the steps before it are given to the layer as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from rade.distribution import Reverse
from rade.graph.graph import Graph
from rade.nn.context import Arguments, Context, Find
from rade.nn.edge_values import impute_added
from rade.nn.relations import is_edge_type, reverses
from rade.runtime import Recall
from rade.views import View

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

_sorted: Recall[bool] = Recall()
_by_kind: Recall[list[tuple[int, Tensor, Tensor]]] = Recall()


class _Reached(Exception):
    """A layer on a view came to the step whose sum is wanted."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


def aggregate_pairs(conv: CorrectedConv, context: Context, graph: Graph | None, given: Arguments) -> Any:
    """The layer's output with every sum corrected by a pair of views; PyG's own where it has no edges to draw."""
    layer: Any = conv
    if "edge_index" in conv._names and not _is_list(given.get("edge_index")):
        context.note_plain(layer)
        return conv._plain.forward(layer, **given)
    with without_cache(layer), _first_receives(layer):
        if "edge_index" not in conv._names:
            return _sum_by_sum(conv, context, given)
        return _step_by_step(conv, context, _Edges(conv, context, graph, given), given)


@contextmanager
def without_cache(conv: Any) -> Iterator[None]:
    """What PyG keeps for ``cached=True`` is of the clean graph: views neither read nor change it."""
    own = vars(conv)
    kept = {name: value for name, value in own.items() if name == "cached" or name.startswith("_cached_")}
    own.update({name: False if name == "cached" else None for name in kept})
    try:
        yield
    finally:
        own.update(kept)


@contextmanager
def _first_receives(conv: Any) -> Iterator[None]:
    """PyG's medians stop where the first node receives nothing or there is one message, its LSTM where there is none.

    On such views one node more, before all others, receives two messages, and its sum is left out.
    """
    module = vars(conv)["_modules"].get("aggr_module")
    if module is None:
        yield
        return
    plain = module.forward

    def forward(x: Tensor, index: Tensor, ptr: None, dim_size: int, dim: int, **options: Any) -> Tensor:
        if len(index) > 1 and bool((index == 0).any()):
            return cast(Tensor, plain(x, index, ptr, dim_size, dim, **options))
        first = x.new_zeros([2 if k == dim % x.dim() else size for k, size in enumerate(x.shape)])
        index = torch.cat([index.new_zeros(2), index + 1])
        out: Tensor = plain(torch.cat([first, x], dim), index, ptr, dim_size + 1, dim, **options)
        return out.narrow(dim, 1, dim_size)

    vars(module)["forward"] = forward
    try:
        yield
    finally:
        del vars(module)["forward"]


def _step_by_step(conv: CorrectedConv, context: Context, views: _Edges, given: Arguments) -> Any:
    """A pair of views of the whole graph for each sum."""
    layer: Any = conv
    if not context.setting.variant.corrects:
        return conv._plain.forward(layer, **{**given, **views.whole(0, 0)})
    steps: list[Tensor] = []

    def sum_on(number: int) -> Tensor:
        """What the layer sums on a view in the present step, with the steps before it as they are."""
        of_view = views.whole(len(steps), number)
        earlier = iter(list(steps))

        def until_step(edges: object, aggregate: Callable[[object], Tensor]) -> Tensor:
            known = next(earlier, None)
            if known is None:
                raise _Reached(aggregate(edges))
            return known

        try:
            with _on_a_view(layer):
                layer.__dict__["_paired"] = until_step
                conv._plain.forward(layer, **{**given, **of_view})
        except _Reached as reached:
            return reached.value
        raise RuntimeError(f"{type(conv).__name__} takes fewer steps on a view than on its graph")

    def combine(edges: object, aggregate: Any) -> Tensor:
        clean: Tensor = aggregate(edges)
        kind = len(steps)
        if _sums_kind(conv, given, edges, kind, aggregate):
            with _on_a_view(layer):
                corrected: Tensor = clean + aggregate(views.of_kind(kind, 0)) - aggregate(views.of_kind(kind, 1))
        else:
            corrected = clean + sum_on(0) - sum_on(1)
        steps.append(corrected)
        return corrected

    return _summed_by(conv, combine, given)


@contextmanager
def _on_a_view(conv: Any) -> Iterator[None]:
    """Without the layer's own dropout, and with no trace in the layer of what runs inside.

    Dropout is in its clean sum; on views it would be drawn twice more, and add to the noise. The difference of two
    views has mean zero with or without it. Running statistics, and what a layer keeps of its last call, such as the
    attention weights that it returns, are of the clean graph.
    """
    parts, own = list(conv.modules()), dict(vars(conv))
    before = [(part, part.training, part._buffers) for part in parts]
    for part, training, buffers in before:
        part.training = training and part is not conv and not isinstance(part, _DropoutNd)
        vars(part)["_buffers"] = {name: None if value is None else value.clone() for name, value in buffers.items()}
    try:
        yield
    finally:
        vars(conv).clear()
        vars(conv).update(own)
        for part, training, buffers in before:
            part.training, vars(part)["_buffers"] = training, buffers


def _summed_by(conv: Any, combine: Callable[[object, Any], Tensor], given: Arguments) -> Any:
    """PyG's own forward, with ``combine`` in the place of every sum."""
    conv.__dict__["_paired"] = combine
    try:
        return conv._plain.forward(conv, **given)
    finally:
        del conv.__dict__["_paired"]


def _sum_by_sum(conv: CorrectedConv, context: Context, given: Arguments) -> Any:
    """For layers whose edges have several kinds (positive and negative, by relation), another name, or are found by the
    layer itself (nearest neighbors): views of what each sum gets.

    What such a layer hands over for each edge belongs to the clean one, so views of those are without additions.
    """
    layer: Any = conv
    find, steps = context.views_for(layer, "views"), Counter[Hashable]()

    def combine(edges: object, aggregate: Any) -> Tensor:
        clean: Tensor = aggregate(edges)
        if not _is_list(edges):
            return clean
        values = _values_of_edges(conv, edges, aggregate)
        sizes = _sizes(conv, {"x": None, **aggregate.keywords}, edges)
        parts = _by_relation(conv, context, edges, given, sizes)
        steps.update(part.name for part in parts)

        def drawn(number: int) -> Tensor:
            views = [part.drawn(find, steps[part.name], number) for part in parts]
            kept = torch.cat([kept for kept, _ in views])
            rows = {name: value[kept] for name, value in values.items()}
            added = views[0][1] if len(parts) == 1 and not values else edges[:, :0]
            found: Tensor = aggregate(torch.cat([edges[:, kept], added], 1), **rows)
            return found

        if not context.setting.variant.corrects:
            return drawn(0)
        with _on_a_view(conv):
            return clean + drawn(0) - drawn(1)

    return _summed_by(conv, combine, given)


@dataclass(frozen=True)
class _Part:
    """Edges of a call that are drawn together: all of them, or a relation."""

    positions: Tensor  # among those of the call
    graph: Graph
    name: Hashable = None  # of the relation, and of its reverse in the same call
    reverse: Hashable = None

    def drawn(self, find: Find, step: int, number: int) -> tuple[Tensor, Tensor]:
        """The edges that are kept on a view, by their positions, and those that are added, [2, A]."""
        back = None if self.reverse is None else (self.reverse, step)
        view = cast(View, find(self.graph, (self.name, step), number, back).view)
        return self.positions[view.kept_as_given()], torch.stack([view.added.source, view.added.target])


def _by_relation(conv: Any, context: Context, edges: Tensor, given: Arguments, sizes: tuple[int, int]) -> list[_Part]:
    """The relations that a layer sums over at once."""
    relations, x = given.get("edge_index_dict", {}), given.get("x_dict", {})
    own = [name for name, value in relations.items() if value is edges]
    together = sum(value.shape[1] for value in relations.values() if _is_list(value))
    described = all(is_edge_type(name) and name[0] in x and name[-1] in x for name in relations)
    if not relations or not described or (not own and edges.shape[1] != together):
        return [_Part(_all(edges), context.graph_of(edges, sizes[0], conv._relation, sizes[1]))]
    parts, first, turned = [], 0, reverses(cast(Reverse, context.setting.views.reverse), tuple(relations))
    for name in own[:1] or relations:
        value = relations[name]
        graph = context.graph_of(value, len(x[name[0]]), name, len(x[name[-1]]))
        parts.append(_Part(first + _all(value), graph, name, turned.get(name)))
        first += value.shape[1]
    return parts


def _all(edge_index: Tensor) -> Tensor:
    return torch.arange(edge_index.shape[1], device=edge_index.device)


def _values_of_edges(conv: Any, edges: Tensor, aggregate: Any) -> dict[str, Tensor]:
    """What a layer hands to `message` for each edge, as it is: PyG gathers the rest, named _i and _j, from nodes."""
    names = conv.inspector.get_param_names("message")
    found = {name: value for name, value in aggregate.keywords.items() if name in names and isinstance(value, Tensor)}
    return {name: value for name, value in found.items() if len(value) == edges.shape[1]}


def _is_list(edge_index: object) -> TypeGuard[Tensor]:
    """Whether it is a tensor of pairs, [2, E]."""
    return isinstance(edge_index, Tensor) and edge_index.layout == torch.strided and edge_index.dtype == torch.long


def _sums_kind(conv: Any, given: Arguments, edges: object, kind: int, aggregate: Any) -> bool:
    """Whether a layer sums over the edges of each kind by itself, in their order, as RGCN does, and is at this one.

    Such sums have one input, so a pair of views for each kind serves, and what came before need not be computed again.
    """
    kinds, whole = given.get("edge_type"), given["edge_index"]
    if kinds is None or not conv.__dict__.get("num_relations", 0) > 1 or not _is_list(edges) or edges is whole:
        return False
    return not _values_of_edges(conv, edges, aggregate) and torch.equal(edges, whole[:, kinds == kind])


class _Edges:
    """The edges of a call as its views are drawn: all at once, or each kind by itself."""

    def __init__(self, conv: Any, context: Context, graph: Graph | None, given: Arguments) -> None:
        edge_index, kinds = given["edge_index"], given.get("edge_type")
        self.conv, self.given, self.find = conv, given, context.views_for(conv, "views")
        sources, received = _sizes(conv, given, edge_index)
        targets = received if sources != received or (kinds is None and isinstance(given.get("x"), tuple)) else None
        if kinds is None:
            graph = context.graph_of(edge_index, sources, conv._relation, targets) if graph is None else graph
            self.parts = [_Part(_all(edge_index), graph)]
            return
        self.parts = []
        for kind, positions, edges in _by_kind.get((edge_index, kinds), None, lambda: _split(edge_index, kinds)):
            graph = context.graph_of(edges, sources, conv._relation, targets, own=True)
            self.parts.append(_Part(positions, graph, kind, conv._reverses.get(kind)))

    def whole(self, step: int, number: int) -> Arguments:
        """A view, kept edges first, and what the call has for each; by step of a layer and number there."""
        found, graph = [part.drawn(self.find, step, number) for part in self.parts], self.parts[0].graph
        kept, added = torch.cat([kept for kept, _ in found]), torch.cat([added for _, added in found], 1)
        edge_index, nodes = self.given["edge_index"], (graph.pattern.columns, graph.pattern.rows)
        rest = {name: value for name, value in self.given.items() if name != "edge_type"}
        values = impute_added(self.conv, rest, kept, graph.batch[edge_index[1]], graph.batch[added[1]], nodes)
        if (kinds := self.given.get("edge_type")) is not None:
            of_added = [kinds.new_full(added[0].shape, part.name) for part, (_, added) in zip(self.parts, found)]
            values["edge_type"] = torch.cat([kinds[kept], *of_added])
        return _sorted_as(self.conv, edge_index, torch.cat([edge_index[:, kept], added], 1), values)

    def of_kind(self, kind: int, number: int) -> Tensor:
        """The edges of one kind alone, of the first step."""
        edge_index: Tensor = self.given["edge_index"]
        for part in self.parts:
            if part.name == kind:
                kept, added = part.drawn(self.find, 0, number)
                return torch.cat([edge_index[:, kept], added], 1)
        return edge_index[:, :0]


def _split(edge_index: Tensor, kinds: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """The kinds that edges have, one where there are no edges; of each the positions of its edges, and these."""
    known = torch.unique(kinds).tolist() if len(kinds) else [0]
    positions = [(kinds == kind).nonzero().squeeze(1) for kind in known]
    return [(kind, at, edge_index[:, at]) for kind, at in zip(known, positions)]


def _sorted_as(conv: Any, clean: Tensor, edge_index: Tensor, values: Arguments) -> Arguments:
    """A view's edges and values, by receiving nodes if the given edges are so: some aggregations need that (LSTM)."""
    end = 1 if conv.flow == "source_to_target" else 0
    if _sorted.get((clean,), end, lambda: bool((clean[end].diff() >= 0).all())):
        order = edge_index[end].argsort(stable=True)
        edge_index, values = edge_index[:, order], {name: value[order] for name, value in values.items()}
    return {**values, "edge_index": edge_index}


def _sizes(conv: Any, given: Arguments, edge_index: Tensor) -> tuple[int, int]:
    """How many nodes send, and how many receive."""
    x, size = given.get("x"), given.get("size")
    both = x if isinstance(x, tuple) else (x, x)
    known = [part if isinstance(part, Tensor) else None for part in both]
    rows = [None if part is None else part.shape[conv.node_dim] if part.dim() > 1 else len(part) for part in known]
    rows = [own if asked is None else asked for own, asked in zip(rows, size)] if size is not None else rows
    seen = [int(ends.max()) + 1 if ends.numel() else 0 for ends in edge_index]
    if not isinstance(x, tuple) and rows[0] is None:
        seen = [max(seen)] * 2
    return (seen[0] if rows[0] is None else rows[0], seen[1] if rows[1] is None else rows[1])
