"""Relations of a heterogeneous model: views of edges between two kinds of nodes, and reverses that share their draw."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rade.distribution import Rates, Relation, Reverse
from rade.graph.pairs import bernoulli_positions
from rade.views import View

if TYPE_CHECKING:
    from rade.nn.base import CorrectedConv

Relations = Mapping[Hashable, Hashable]  # each relation that has a reverse, and that


@dataclass(frozen=True, eq=False)
class Between:
    """One random view of edges between two kinds of nodes; a pair has the number target · sources + source."""

    sources: int
    targets: int
    pairs: Tensor  # [m] those that are joined, ascending
    pair: Tensor  # [E] which of them each given edge is
    kept: Tensor  # [m] bool
    extra: Tensor  # [A] numbers of the pairs that are added

    @staticmethod
    def draw(
        edge_index: Tensor,
        sources: int,
        targets: int,
        rates: Callable[[float], Rates],
        generator: torch.Generator,
        batches: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Between:
        """Every distinct pair is kept with 1−p, and every other one added with q.

        rates: p and q for a relation of this density.
        batches: [sources] and [targets], the graph of each node; graphs stay apart.
        """
        device, (of_source, of_target) = edge_index.device, batches
        pairs, pair = torch.unique(edge_index[1] * sources + edge_index[0], return_inverse=True)
        within = None if of_source is None or of_target is None else _WithinGraphs(of_source, of_target)
        possible = sources * targets if within is None else within.count
        chosen = rates(pairs.numel() / max(possible, 1))
        kept = torch.rand(pairs.numel(), generator=generator, device=device) >= float(chosen.p)
        drawn = bernoulli_positions(possible, float(chosen.q), generator, device)
        drawn = drawn if within is None else within.numbers(drawn)
        if pairs.numel():
            at = torch.searchsorted(pairs, drawn).clamp_(max=pairs.numel() - 1)
            drawn = drawn[pairs[at] != drawn]
        return Between(sources, targets, pairs, pair, kept, drawn)

    @property
    def positions(self) -> Tensor:
        """Which of the given edges are kept."""
        return self.kept[self.pair].nonzero().squeeze(1)

    @property
    def added(self) -> Tensor:
        """[2, A]."""
        return torch.stack([self.extra % self.sources, self.extra // self.sources])

    def as_reverse_of(self, other: Between) -> Between:
        """The same, with what ``other`` drew for the pairs of both."""
        if (self.sources, self.targets) != (other.targets, other.sources):  # nodes were left out of one of them
            return self

        def turned(number: Tensor) -> Tensor:
            return number % other.sources * other.targets + number // other.sources

        kept, same = _in_common(self.pairs, self.kept, turned(other.pairs), other.kept)
        return replace(self, kept=kept, extra=turned(other.extra).sort().values if same else self.extra)


class _WithinGraphs:
    """The pairs of a source and a target in the same graph, in a row: as many as there are, graph by graph."""

    def __init__(self, of_source: Tensor, of_target: Tensor) -> None:
        batches = of_source, of_target
        graphs = max((int(batch.max()) + 1 for batch in batches if batch.numel()), default=0)
        self.sizes = [torch.bincount(batch, minlength=graphs) for batch in batches]
        self.orders = [torch.argsort(batch, stable=True) for batch in batches]
        self.ends = (self.sizes[0] * self.sizes[1]).cumsum(0)
        self.count = int(self.ends[-1]) if graphs else 0

    def numbers(self, positions: Tensor) -> Tensor:
        """Of the pairs at these positions, ascending, as in `Between`."""
        graph = torch.searchsorted(self.ends, positions, right=True)
        wide, high = (size[graph] for size in self.sizes)
        inside = positions - self.ends[graph] + wide * high
        first = [(size.cumsum(0) - size)[graph] for size in self.sizes]
        source, target = self.orders[0][first[0] + inside % wide], self.orders[1][first[1] + inside // wide]
        return (target * len(self.orders[0]) + source).sort().values


def as_reverse_of(view: View, other: View) -> View:
    """The same for views of graphs on one kind of nodes; the distribution of the view stays what it was."""
    graph, nodes = view.graph, view.graph.num_nodes
    if other.graph.num_nodes != nodes or graph.directed != other.graph.directed:
        return view
    own, turned = graph.pattern, other.graph.pattern
    numbers = own.target * nodes + own.source, turned.source * nodes + turned.target
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


@dataclass(frozen=True)
class Place:
    """Where in a model a relation is drawn, and where its reverse."""

    own: Hashable
    reverse: Hashable


@lru_cache(maxsize=64)
def reverses(reverse: Reverse, relations: tuple[Relation, ...]) -> Relations:
    """Those of the relations that have a reverse among them, and which."""
    if isinstance(reverse, str):
        named = [name for name in relations if isinstance(name, tuple)]
        pairs = [(name, (name[2], reverse + name[1], name[0])) for name in named]
        return _both_ways((one, other) for one, other in pairs if other in named)
    found = []
    for name, back in reverse:
        ones, others = ([one for one in relations if _is(which, one)] for which in (name, back))
        found += [(one, other) for one in ones for other in others if _turn(one, other)]
    return _both_ways(found)


def _both_ways(pairs: Iterable[tuple[Relation, Relation]]) -> Relations:
    found: dict[Hashable, Hashable] = {}
    for one, other in pairs:
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
    """Tell every layer which relations it aggregates over, by its path or by what it was built with."""
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
                conv.__dict__["_place"] = Place((group, relation), (group, turned[relation]))


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
