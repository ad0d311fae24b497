"""What the layers of one model share: how views are drawn, what is known of the present call, and the views so far."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import local
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn import Module

from rade.correction import Adjacency
from rade.distribution import NO_NOISE, Correction, Distribution, Rates, Relation, Trust, Variant, Views
from rade.errors import outside
from rade.graph.graph import Graph, JoinedGraphs
from rade.nn.relations import Bipartite, as_reverse_of, written
from rade.runtime import Recall
from rade.views import View, branched, draw, packed, seeded, unpack

if TYPE_CHECKING:
    from rade.nn.trace import Trace

Arguments = dict[str, Any]  # what a layer is called with, by name
Mode = Literal["views", "mean", "clean"]
Find = Callable[..., Adjacency]  # by graph, step, and the number of a view
OF_RELATION = "relation"  # what the cache of the graph of a relation has, its edge type or None
KEPT = 4  # distributions: of training and of evaluation, on two graphs each


@dataclass(frozen=True)
class Setting:
    """How views are drawn and corrected, for all layers of a model.

    Attributes:
        variant, correction, views, noise, trust: as in `Distribution`.
        mode: what layers aggregate over; None: views in training, and in evaluation what the variant says.
        rates: to use in place of the model's own.
    """

    variant: Variant = Variant.OF
    correction: Correction = Correction()  # noqa: RUF009 - frozen values
    views: Views = Views()  # noqa: RUF009
    noise: Rates = NO_NOISE
    trust: Trust = Trust()  # noqa: RUF009
    mode: Mode | None = None
    rates: Rates | None = None

    @property
    def noiseless(self) -> bool:
        """Whether the graph is taken as it is."""
        return self.noise == NO_NOISE and self.trust.alike


@dataclass(frozen=True, eq=False)
class BatchVectors:
    """The graph of each node, as far as the arguments of a call tell.

    Attributes:
        vectors: of whatever nodes there are as many of.
        edges: those that came in a data object, with its edge_index if it has one.
        kinds: of each kind of nodes.
    """

    vectors: Sequence[Tensor] = ()
    edges: Sequence[tuple[Tensor | None, Tensor]] = ()
    kinds: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Whether there is more than one graph."""
        return any(vector.numel() and int(vector.max()) > 0 for vector in (*self.vectors, *self.kinds.values()))

    def of(self, nodes: int, edge_index: Tensor | None, kind: str | None) -> Tensor | None:
        """That of so many nodes, by the edges among them or their kind, where these are known; None if unclear."""
        for edges, vector in self.edges:
            if edges is edge_index is not None and vector.numel() == nodes:
                return vector
        own = [vector for name, vector in self.kinds.items() if written(name) == kind]
        fitting = [vector for vector in (*self.vectors, *(own or self.kinds.values())) if vector.numel() == nodes]
        alike = all(torch.equal(fitting[0], other) for other in fitting[1:])
        return fitting[0] if fitting and alike else None


class Pass:
    """One pass through a model: its views by layer, so that a layer that is computed again meets the same one.

    Calls that a backward pass repeats do not tell their number, so a layer that was called more than once is refused.
    """

    def __init__(self, batch: BatchVectors | None = None) -> None:
        self.batch = batch
        self.graph: Graph | None = None  # of the first layer
        self.counted = False  # whether that graph is known to be one of training
        self.drew = False  # whether any layer aggregated over a view
        self.last: tuple[Tensor, Hashable, Graph] | None = None  # the edge_index that a layer got last, and its graph
        self.targets: Tensor | None = None  # the nodes that the last layer was asked for, all if None
        self.logits: Tensor | None = None  # that a training call returned, detached
        self.views: dict[Hashable, View] = {}
        self.of_relation: dict[Hashable, View] = {}  # for their reverses
        self.programs: dict[Hashable, Any] = {}  # graphs of plain operations, where a program is made of the model
        self.distributions: dict[Graph, Distribution] = {}
        self.calls: Counter[Module] = Counter()
        self.by_pairs: dict[Module, str] = {}  # layers that were corrected by pairs of views, and why
        self.mixed: set[str] = set()  # kinds of layers that add edges between different graphs of the batch
        self.plain: set[str] = set()  # kinds of layers for whose edges there are neither views nor their mean
        self.within = torch._C._current_graph_task_id()  # the backward pass in which it was made, −1 outside of any

    def enter(self, layer: Module) -> int:
        """Count a call of a layer; in a backward pass that began since, it is one of before."""
        if torch._C._current_graph_task_id() == self.within:
            self.calls[layer] += 1
        elif self.calls[layer] > 1:
            raise RuntimeError(
                f"{type(layer).__name__} was called {self.calls[layer]} times in one pass, each on a view of its own, "
                "and activation checkpointing cannot distinguish them; leave it out, or share one view, "
                "views=rade.Views(shared=True)"
            )
        return self.calls[layer]

    def note_mixed(self, layer: Module) -> None:
        """A layer adds edges to nodes whose graphs are unknown: between different ones, if the batch has several."""
        if self.batch is not None and self.batch.several:
            self.mixed.add(type(layer).__name__)


class RateSource(Protocol):
    """Where the rates of a model come from: `rade.rates.state.RateState`, which says what each of these means."""

    p: Tensor
    rho: Tensor
    density: Tensor
    nodes: Tensor

    def rates_at(self, density: float) -> Rates: ...
    def rates_for(self, graph: Graph) -> Rates: ...
    def see(self, graph: Graph) -> None: ...
    def count(self, graph: Graph, whole: bool) -> None: ...


class _Here(local):
    """What is of one thread: predictions may be made in several at once.

    Attributes:
        setting: another than that of the context, for a while.
        trace: notes what layers do, while somebody looks.
    """

    current: Pass | None = None
    setting: Setting | None = None
    trace: Trace | None = None


class Context:
    """Where the layers of a model get their views from.

    Attributes:
        setting: how views are drawn and corrected.
        source: of the rates for a pass, by its first graph; relations have those of their own density.
        generator: source of all randomness; it moves to the device of the graph when first used.
    """

    def __init__(self, setting: Setting, source: RateSource, generator: torch.Generator | None = None) -> None:
        self.setting, self.source = setting, source
        self.generator = seeded() if generator is None else generator
        self.here = _Here()
        self.reached: Pass | None = None  # whose output a backward pass came to last
        self._graphs: Recall[Graph] = Recall()
        self._distributions: dict[Hashable, Distribution] = {}
        self._copies = 0
        self.lost: set[str] = set()  # kinds of layers that follow another model now
        self._told = False  # of a layer that was called by itself
        self._undone: dict[Rates, bool] = {}  # noise that graphs had, and whether one was too sparse for it

    @contextmanager
    def running(self, batch: BatchVectors | None = None) -> Iterator[Pass]:
        """One pass; inside of another it is part of that one."""
        if self.here.current is not None:
            yield self.here.current
            return
        self.here.current = self.reached = present = Pass(batch)
        try:
            yield present
        finally:
            self.here.current = present.last = None  # an edge_index lives as long as its owner says

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Views of their own for what runs inside, on the same batch."""
        before = self.here.current
        self.here.current = Pass(None if before is None else before.batch)
        try:
            yield
        finally:
            self.here.current = before

    @contextmanager
    def using(self, trace: Trace | None = None, everywhere: bool = False, **changes: Any) -> Iterator[None]:
        """Another setting for a while: in this thread or, as a backward pass may have its own, ``everywhere``."""
        here, whose = self.here, self if everywhere else self.here
        before, looking = whose.setting, here.trace
        whose.setting, here.trace = replace(here.setting or self.setting, **changes), trace
        try:
            yield
        finally:
            whose.setting, here.trace = before, looking

    def mode_of(self, layer: Module) -> Mode:
        """What a layer aggregates over."""
        setting = self.here.setting or self.setting
        if setting.mode is not None:
            return setting.mode
        if layer.training:
            return "mean" if setting.views.sampling == "expected" else "views"
        return "clean" if setting.noiseless and not setting.variant.keeps_additions else "mean"

    def graph_of(
        self,
        edge_index: Tensor,
        nodes: int,
        relation: Relation | None = None,
        targets: int | None = None,
        own: bool = False,
    ) -> Graph:
        """The graph of an ``edge_index``: sorted once, then recalled while the tensor lives unchanged.

        relation: the edge type that it is of, in a heterogeneous model.
        targets: how many nodes receive, if these are of another kind.
        own: whether it has rates by its own density, as all graphs of relations have.
        """
        current = self.here.current
        last = None if current is None else current.last
        place = None if edge_index.is_inference() else edge_index._version, nodes, relation, targets
        if last is not None and last[0] is edge_index and last[1] == place:
            return last[2]
        batch = self.batch_for(nodes, relation, edge_index=edge_index)
        if targets is None:
            directed = True if self.setting.views.directed else None
            given = edge_index, nodes, batch, directed
            found = self._graphs.get((edge_index, batch), (nodes, directed, relation), lambda: _sorted(*given))
        else:
            batches = batch, self.batch_for(targets, relation, -1, edge_index)
            ends = edge_index, nodes, targets, batches
            found = self._graphs.get((edge_index, *batches), (nodes, targets, relation), lambda: Bipartite.of(*ends))
        if own or relation is not None or targets is not None:
            found.cache[OF_RELATION] = relation
        if current is not None:
            current.last = edge_index, place, found
        return found

    def knows(self, edge_index: Tensor, nodes: int, relation: Relation | None = None) -> bool:
        """Whether the graph of an ``edge_index`` was sorted before."""
        directed = True if self.setting.views.directed else None
        batch = self.batch_for(nodes, relation, edge_index=edge_index)
        return self._graphs.known((edge_index, batch), (nodes, directed, relation))

    def batch_for(
        self, nodes: int, relation: Relation | None = None, end: int = 0, edge_index: Tensor | None = None
    ) -> Tensor | None:
        """The batch vector of the present call, for layers with as many nodes; None if there are several such.

        relation, end: the edge type whose sources (0) or targets (−1) the nodes are, if it is known.
        """
        batch = (self.here.current or self._pass()).batch
        if batch is None:
            return None
        return batch.of(nodes, edge_index, written(relation[end]) if isinstance(relation, tuple) else None)

    def distribution(self, graph: Graph, training: bool) -> Distribution:
        """That of the views of a graph, the same object for the same rates."""
        setting = self.here.setting or self.setting
        # Rates are those of a pass, by its first graph: a pooled one is treated in evaluation as in training.
        current = self.here.current
        first = graph if current is None or current.graph is None else current.graph
        if setting.rates is not None:
            rates = setting.rates
        elif OF_RELATION in graph.cache:  # q = ρD follows from its own density
            rates = Rates(float(self.source.p), min(float(self.source.rho) * graph.density, 1.0))
        elif training or not setting.variant.keeps_additions:
            rates = self.source.rates_at(first.density)
        else:
            rates = self.source.rates_for(first)
        rest = (setting.variant, setting.correction, setting.views, setting.noise, setting.trust)
        if isinstance(graph, Bipartite):  # which has no moments to keep
            return Distribution(graph, rates, *rest)
        key = (graph, rates, setting.noise, setting.trust)
        found = self._distributions.pop(key, None)
        if found is None:
            self._check_noise(graph, setting.noise)
            found = Distribution(graph, rates, *rest)
            if len(self._distributions) == KEPT:
                self._distributions.pop(next(iter(self._distributions)), None)
        self._distributions[key] = found  # the latest used are kept
        return found

    def _check_noise(self, graph: Graph, noise: Rates) -> None:
        """Refuse noise that leaves no real edge in the first graph that has it; warn once of a later, sparser one."""
        q = noise.numbers[1]
        if 0.0 < q >= graph.density and not self._undone.get(noise):
            told = (
                f"noise that adds {q:g} of all pairs leaves no real edge in a graph of density {graph.density:g}; q "
                "must be smaller than the observed density"
            )
            if noise not in self._undone:
                raise ValueError(told)
            warnings.warn(f"{told}; the call continues", stacklevel=outside())
            self._undone[noise] = True
        self._undone.setdefault(noise, False)

    def views_for(self, layer: Module, mode: Mode) -> Find:
        """What a step of one call of a layer aggregates over, by its graph and number; so are several views of it.

        Several graphs of a step have a key each; ``back`` is that of the reverse, of one that is a relation.
        """
        if mode == "clean":
            return lambda graph, *_: Adjacency(graph)
        present, shared = self.here.current or self._alone(layer), self.setting.views.shared
        present.drew = True
        call = present.enter(layer) if mode == "views" and not shared else 0

        def find(graph: Graph, step: Hashable, number: int = 0, back: Hashable = None) -> Adjacency:
            distribution = present.distributions.get(graph)
            if distribution is None or (layer.training and graph is present.graph and not present.counted):
                distribution = present.distributions[graph] = self._met(present, layer, graph, mode)
            if mode == "mean":
                return Adjacency(graph, distribution)
            key: Hashable = (graph, number) if shared else (layer, call, step, number)
            drawn = present.views.get(key)
            if drawn is None:
                own, reverse = (layer, layer) if back is not None else layer.__dict__.get("_place", (layer, None))
                drawn = self.draw(distribution)
                if reverse is not None:
                    other = present.of_relation.get((reverse, call, step if back is None else back, number))
                    drawn = drawn if other is None else as_reverse_of(drawn, other)
                    present.of_relation[own, call, step, number] = drawn
                present.views[key] = drawn
            return Adjacency(graph, distribution, drawn)

        return find

    def _met(self, present: Pass, layer: Module, graph: Graph, mode: Mode) -> Distribution:
        """The distribution of the views of a graph that is new in a pass."""
        if present.graph is None and not isinstance(graph, Bipartite):
            present.graph = graph
        if layer.training and graph is present.graph and (self.here.setting or self.setting).mode is None:
            present.counted = True  # a frozen layer, which is in evaluation mode, may have come first
            self.source.see(graph)
            if self.setting.variant.keeps_additions:
                self.source.count(graph, present.batch is not None)
        found = self.distribution(graph, mode == "views")
        if present.batch is not None and graph.num_graphs == 1 and found.rates.q:
            relation, pattern = graph.cache.get(OF_RELATION, layer.__dict__.get("_relation")), graph.pattern
            ends = self.batch_for(pattern.columns, relation), self.batch_for(pattern.rows, relation, -1)
            if any(vector is None or (vector.numel() and int(vector.max()) > 0) for vector in ends):
                present.note_mixed(layer)
        return found

    @property
    def repeats(self) -> bool:
        """Whether a backward pass computes a pass again that it came to, for activation checkpointing."""
        task = torch._C._current_graph_task_id()
        return task >= 0 and self.reached is not None and self.reached.within != task

    def note_plain(self, layer: Module) -> None:
        """PyG's own aggregation ran in a layer where views, or their mean, were asked for."""
        if self.here.current is not None:
            self.here.current.plain.add(type(layer).__name__)

    def draw(self, distribution: Distribution) -> View:
        """A view by the model's own generator."""
        if self.generator.device != distribution.graph.device:
            self.generator = branched(self.generator, device=distribution.graph.device)
        return draw(distribution, self.generator)

    def _pass(self) -> Pass:
        """Outside of any: in a backward pass the one whose output it came to; else one for this call alone."""
        if torch._C._current_graph_task_id() >= 0 and self.reached is not None:
            return self.reached
        return Pass()

    def _alone(self, layer: Module) -> Pass:
        """The pass of a layer that is called outside of any; warns once, since it is one without a batch vector."""
        if torch._C._current_graph_task_id() < 0 and not self._told:
            self._told = True
            warnings.warn(
                f"{type(layer).__name__} was called in a part of the model, not in a call of the model that rade.RADE "
                "returned or of a method of it: batch vectors, views that layers share and rates that adapt are those "
                "of such calls",
                stacklevel=outside(),
            )
        return self._pass()

    def __getstate__(self) -> dict[str, object]:
        """Everything but what passes; the generator as its state, since generators cannot be pickled."""
        gone: dict[str, object] = {"here": None, "reached": None, "_distributions": {}}
        return self.__dict__ | gone | {"generator": packed(self.generator)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        generator = torch.Generator()
        unpack(generator, state["generator"])
        self.__dict__.update(state | {"generator": generator, "here": _Here()})

    def __deepcopy__(self, memo: dict[int, object]) -> Context:
        """The same with a stream of its own: a teacher or an average must not see the model's views."""
        self._copies += 1
        source = deepcopy(self.source, memo)
        copy = memo[id(self)] = Context(self.setting, source, branched(self.generator, self._copies))
        return copy


def _sorted(edge_index: Tensor, nodes: int, batch: Tensor | None, directed: bool | None) -> Graph:
    """The graph of an ``edge_index``; a vector of as many nodes is not that of its batch if an edge says otherwise."""
    try:
        return Graph.from_edge_index(edge_index, nodes, batch, directed)
    except JoinedGraphs:
        return Graph.from_edge_index(edge_index, nodes, None, directed)
