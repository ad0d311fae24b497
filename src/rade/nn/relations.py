"""Relations of a heterogeneous model: edges between two kinds of nodes, and reverses that share their draw."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rade.distribution import Relation, Reverse
from rade.graph.graph import Graph, node_count
from rade.graph.sparse import Pattern, places, row_pointer
from rade.views import View

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

Relations = Mapping[Hashable, Hashable]  # each relation that has a reverse, and that


@dataclass(frozen=True, eq=False)
class Bipartite(Graph):
    """Edges between two kinds of nodes, in a rectangular pattern; `Graph` says what is of the nodes that receive.

    Any pair of a source and a target may be one, and each direction is by itself. Pairs are numbered graph by graph.
    """

    of_source: Tensor = field(default_factory=lambda: torch.empty(0).long())  # [columns] graph of each that sends

    @staticmethod
    def of(edge_index: Tensor, sources: int, targets: int, batches: Sequence[Tensor | None]) -> Bipartite:
        """Each distinct pair of an ``edge_index`` once.

        batches: the graph of each node that sends, and that receives; one graph if an edge is in none of them.
        """
        for ends, nodes in zip(edge_index, (sources, targets)):
            node_count(ends.expand(2, -1), nodes)
        known = [batch[ends] for batch, ends in zip(batches, edge_index) if batch is not None]
        of_source, of_target = batches
        if of_source is None or of_target is None or not torch.equal(*known):
            of_source, of_target = edge_index.new_zeros(sources), edge_index.new_zeros(targets)
        pairs, pair = torch.unique(edge_index[1] * sources + edge_index[0], return_inverse=True)
        pattern = Pattern.general(row_pointer(pairs // max(sources, 1), targets), pairs % max(sources, 1), sources)
        order = torch.empty_like(pairs).scatter_(0, pair, torch.arange(pair.numel(), device=pair.device))
        graphs = max((int(batch.max()) + 1 for batch in (of_source, of_target) if batch.numel()), default=1)
        ptr = row_pointer(of_target.sort().values, graphs)
        return Bipartite(pattern, order, of_target, ptr, directed=True, entry=pair, of_source=of_source)

    @cached_property
    def _targets(self) -> _Side:
        return _Side(self.batch, self.num_graphs)

    @cached_property
    def _sources(self) -> _Side:
        return _Side(self.of_source, self.num_graphs)

    @cached_property
    def _ends(self) -> Tensor:
        """Where the pairs of each graph end, [B]."""
        return (self._targets.sizes * self._sources.sizes).cumsum(0)

    @cached_property
    def num_pairs(self) -> int:
        """Number of pairs of a source and a target of the same graph."""
        return int(self._ends[-1])

    @cached_property
    def edge_rank(self) -> Tensor:
        """Ranks of the edges among all pairs, ascending, [m]."""
        target, source = self.pattern.target, self.pattern.source
        graph, (wide, high) = self.batch[target], (self._sources.sizes, self._targets.sizes)
        first = (self._ends - wide * high)[graph]
        return (first + self._targets.place[target] * wide[graph] + self._sources.place[source]).sort().values

    def pairs_at(self, rank: Tensor) -> Pattern:
        """The pairs at ascending ranks, as a pattern."""
        graph = torch.searchsorted(self._ends, rank, right=True)
        wide, high = self._sources.sizes[graph], self._targets.sizes[graph]
        inside = rank - self._ends[graph] + wide * high
        target = self._targets.order[self._targets.first[graph] + inside // wide]
        source = self._sources.order[self._sources.first[graph] + inside % wide]
        order = torch.argsort(target * self.pattern.columns + source)
        return Pattern.general(row_pointer(target[order], self.num_nodes), source[order], self.pattern.columns)


class _Side:
    """Nodes of one kind, graph by graph."""

    def __init__(self, batch: Tensor, graphs: int) -> None:
        self.order = torch.argsort(batch, stable=True)
        self.sizes = torch.bincount(batch, minlength=graphs)
        self.first = self.sizes.cumsum(0) - self.sizes
        self.place = places(self.order, batch.numel()) - self.first[batch]  # of each node within its graph


def as_reverse_of(view: View, other: View) -> View:
    """The same, with what ``other`` drew for the pairs of both; the distribution of the view stays what it was."""
    own, turned = view.graph.pattern, other.graph.pattern
    # Nodes may have been left out of one of them.
    if (own.rows, own.columns) != (turned.columns, turned.rows) or view.graph.directed != other.graph.directed:
        return view
    numbers = own.target * own.columns + own.source, turned.source * own.columns + turned.target
    kept, same = _in_common(numbers[0], view.kept, numbers[1], other.kept)
    return View(view.distribution, kept, other.added.transpose if same else view.added)


def _in_common(pairs: Tensor, kept: Tensor, others: Tensor, other_kept: Tensor) -> tuple[Tensor, bool]:
    """What is kept, with what others keep of the pairs of both; and whether they hold the same pairs.

    Only then are additions shared: where a loader has sampled neighbors, one relation may lack what the other has.
    """
    if not others.numel() or not pairs.numel():
        return kept, others.numel() == pairs.numel()
    others, order = torch.sort(others)
    at = torch.searchsorted(others, pairs).clamp_(max=others.numel() - 1)
    common = others[at] == pairs
    return torch.where(common, other_kept[order[at]], kept), len(pairs) == len(others) and bool(common.all())


@lru_cache(maxsize=64)
def reverses(reverse: Reverse, relations: tuple[Relation, ...]) -> Relations:
    """Those of the relations that have a reverse among them, and which."""
    pairs: list[tuple[Relation, Relation]] = []
    if isinstance(reverse, str):
        named = [name for name in relations if isinstance(name, tuple)]
        pairs += [(name, (name[2], reverse + name[1], name[0])) for name in named]
    else:
        for name, back in reverse:
            ones, others = ([one for one in relations if _is(which, one)] for which in (name, back))
            pairs += [(one, other) for one in ones for other in others if _turn(one, other)]
    found: dict[Hashable, Hashable] = {}
    for one, other in pairs:
        if other in relations:
            found |= {one: other, other: one}
    return found


def _turn(one: Relation, other: Relation) -> bool:
    """Whether two relations join the same kinds of nodes, in the other direction; numbers do not tell."""
    return not (isinstance(one, tuple) and isinstance(other, tuple)) or (one[0], one[-1]) == (other[-1], other[0])


def _is(name: Relation | str, relation: Relation) -> bool:
    """Whether a name means a relation: the edge type, or its middle; `to_hetero` writes _ for some."""
    if isinstance(relation, int) or isinstance(name, int):
        return name == relation
    parts = name if isinstance(name, tuple) else (name,)
    against = relation if isinstance(name, tuple) else relation[1:2]
    return tuple(map(written, parts)) == tuple(map(written, against))


def written(name: str) -> str:
    """As `to_hetero` writes a name."""
    return name.replace(" ", "_").replace("-", "_").replace(":", "_")


def name_relations(convs: Mapping[str, CorrectedConv], reverse: Reverse) -> None:
    """Tell every layer which relations it aggregates over, by its path or by what it was built with.

    A layer of one that has a reverse learns where both are drawn.
    """
    beside: dict[str, dict[Relation, Any]] = {}
    known: set[Relation] = set()
    for path, conv in convs.items():
        group, _, last = path.rpartition(".")
        relation = _relation(last)
        conv.__dict__["_relation"] = relation
        if relation is not None:
            beside.setdefault(group, {})[relation] = conv
        inside = _relations_inside(conv)
        known |= {*inside, *(() if relation is None else (relation,))}
        conv.__dict__["_reverses"] = reverses(reverse, inside)
    _require_known(reverse, known)
    for group, members in beside.items():
        turned = reverses(reverse, tuple(members))
        for relation, conv in members.items():
            if relation in turned:
                conv.__dict__["_place"] = (group, relation), (group, turned[relation])


def _relation(key: str) -> Relation | None:
    """The edge type that a layer of HeteroConv or `to_hetero` is for, from its key there."""
    parts = key[1:-1].split("___") if key.startswith("<") and key.endswith(">") else key.split("__")
    return tuple(part.replace("#", ".") for part in parts) if len(parts) == 3 else None  # type: ignore[return-value]


def _relations_inside(conv: CorrectedConv) -> tuple[Relation, ...]:
    """Those of a layer that takes several at once, as far as it was built with them: RGCN, by number, HAN and HGT."""
    own, count = conv.__dict__, conv.__dict__.get("num_relations")
    if "edge_type" in conv._names:
        return tuple(range(count)) if isinstance(count, int) else ()
    metadata: Any = own.get("metadata")
    described = isinstance(metadata, tuple | list) and len(metadata) == 2
    listed: Any = own.get("edge_types", metadata[1] if described else ())
    return tuple(name for name in listed if is_edge_type(name)) if isinstance(listed, tuple | list) else ()


def is_edge_type(name: object) -> bool:
    """Whether it is one as PyG has them."""
    return isinstance(name, tuple) and len(name) == 3


def _require_known(reverse: Reverse, known: Collection[Relation]) -> None:
    for pair in () if isinstance(reverse, str) else reverse:
        for name in pair:
            if not any(_is(name, relation) for relation in known):
                listed = ", ".join(map(str, sorted(known, key=str)[:8])) or "none that has a name"
                raise ValueError(
                    f"views=rade.Views(reverse=...) names the relation {name!r}, which no layer of the model has; "
                    f"its relations are {listed}"
                )
        if not reverses((pair,), tuple(known)):
            raise ValueError(
                f"views=rade.Views(reverse=...) says that {pair[0]!r} and {pair[1]!r} are each other's reverse, but "
                "they do not join the same kinds of nodes in opposite directions; name a relation and its reverse"
            )
