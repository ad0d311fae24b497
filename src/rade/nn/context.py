"""What the layers of one model share: how views are drawn, what is known of the present call, and the views so far."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakSet

import torch
from torch import Tensor
from torch.nn import Module

from rade.correction import Adjacency
from rade.distribution import NO_NOISE, Correction, Distribution, Rates, Relation, Trust, Variant, Views
from rade.errors import outside
from rade.graph.graph import Graph
from rade.nn.relations import Between, Place, as_reverse_of, written
from rade.runtime import Recall
from rade.views import View, branched, draw, packed, seeded, unpack

if TYPE_CHECKING:
    from rade.nn.trace import Trace

Arguments = dict[str, Any]  # what a layer is called with, by name
Mode = Literal["views", "mean", "clean"]
Find = Callable[..., Adjacency]  # by step, and the number of a view
Parts = tuple[Tensor, list[tuple[Tensor, Graph]]]  # kinds of edges; of each, their positions and graph
Batch = Tensor | Mapping[str, Tensor]  # the graph of each node, or of each node of each kind
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

    def mode_of(self, layer: Module) -> Mode:
        """What a layer aggregates over."""
        if self.mode is not None:
            return self.mode
        if layer.training:
            return "mean" if self.views.sampling == "expected" else "views"
        return "clean" if self.noiseless and not self.variant.keeps_additions else "mean"

    @property
    def noiseless(self) -> bool:
        """Whether the graph is taken as it is."""
        return self.noise == NO_NOISE and self.trust.alike


class Pass:
    """One pass through a model: its views by layer, so that a layer that is computed again meets the same one.

    Calls that a backward pass repeats do not tell their number, so a layer that was called more than once is refused.
    """

    def __init__(self, batch: Batch | None = None) -> None:
        self.batch = batch
        self.graph: Graph | None = None  # of the first layer
        self.drew = False  # whether any layer aggregated over a view
        self.last: tuple[Tensor, Hashable, Graph] | None = None  # the edge_index that a layer got last, and its graph
        self.targets: Tensor | None = None  # the nodes that the last layer was asked for, all if None
        self.logits: Tensor | None = None  # that a training call returned, detached
        self.views: dict[Hashable, View] = {}
        self.between: dict[Hashable, tuple[Tensor, Between]] = {}
        self.of_relation: dict[Hashable, View | Between] = {}  # for their reverses
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
        vectors = [self.batch] if isinstance(self.batch, Tensor) else list((self.batch or {}).values())
        if any(vector.numel() and int(vector.max()) > 0 for vector in vectors):
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
    def count(self, graph: Graph) -> None: ...


class Context:
    """Where the layers of a model get their views from.

    Attributes:
        setting: how views are drawn and corrected.
        source: of the rates for a pass, by its first graph; relations have those of their own density.
        generator: source of all randomness; it moves to the device of the graph when first used.
        trace: notes what layers do, while somebody looks.
    """

    def __init__(self, setting: Setting, source: RateSource, generator: torch.Generator | None = None) -> None:
        self.setting, self.source = setting, source
        self.generator = seeded() if generator is None else generator
        self.trace: Trace | None = None
        self.current: Pass | None = None
        self.reached: Pass | None = None  # whose output a backward pass came to last
        self._graphs: Recall[Graph] = Recall()
        self._parts: Recall[Parts] = Recall()
        self._relations: WeakSet[Graph] = WeakSet()  # the graphs of one of several relations each
        self._distributions: dict[Hashable, Distribution] = {}
        self._copies = 0
        self._undone: dict[Rates, bool] = {}  # noise that graphs had, and whether one was too sparse for it

    @contextmanager
    def running(self, batch: Batch | None = None) -> Iterator[Pass]:
        """One pass; inside of another it is part of that one."""
        if self.current is not None:
            yield self.current
            return
        self.current = self.reached = present = Pass(batch)
        try:
            yield present
        finally:
            self.current = present.last = None  # an edge_index lives as long as its owner says

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Views of their own for what runs inside, on the same batch."""
        before = self.current
        self.current = Pass(None if before is None else before.batch)
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def using(self, trace: Trace | None = None, **changes: Any) -> Iterator[None]:
        """Another setting for a while."""
        setting, before = self.setting, self.trace
        self.setting, self.trace = replace(setting, **changes), trace
        try:
            yield
        finally:
            self.setting, self.trace = setting, before

    def graph_of(self, edge_index: Tensor, nodes: int, relation: Relation | None = None) -> Graph:
        """The graph of an ``edge_index``: sorted once, then recalled while the tensor lives unchanged.

        relation: the edge type that it is of, in a heterogeneous model.
        """
        last = None if self.current is None else self.current.last
        place = None if edge_index.is_inference() else edge_index._version, nodes, relation
        if last is not None and last[0] is edge_index and last[1] == place:
            return last[2]
        batch, directed = self.batch_for(nodes, relation), True if self.setting.views.directed else None
        given = (edge_index, nodes, batch, directed)
        key = (nodes, directed, relation)
        found = self._graphs.get((edge_index, batch), key, lambda: Graph.from_edge_index(*given))
        if relation is not None:
            self._relations.add(found)
        if self.current is not None:
            self.current.last = edge_index, place, found
        return found

    def parts_of(
        self, edge_index: Tensor, kinds: Tensor, nodes: int, relation: Relation | None
    ) -> Parts:
        """The relations that edges have, one where there are no edges; the edges of each, by their position, and its
        graph. Found once for the same tensors.
        """
        batch, directed = self.batch_for(nodes, relation), True if self.setting.views.directed else None

        def build() -> Parts:
            known = torch.unique(kinds) if len(kinds) else kinds.new_zeros(1)
            places = [(kinds == kind).nonzero().squeeze(1) for kind in known]
            given = [(at, Graph.from_edge_index(edge_index[:, at], nodes, batch, directed)) for at in places]
            return known, given

        found = self._parts.get((edge_index, kinds, batch), (nodes, directed), build)
        self._relations.update(graph for _, graph in found[1])
        return found

    def between(self, layer: Module) -> Callable[..., Between]:
        """Views of edges between two kinds of nodes, for one call of a layer."""
        present, shared = self.current or self._pass(), self.setting.views.shared
        present.drew = True
        call = 0 if shared else present.enter(layer)

        def view(
            edge_index: Tensor,
            sources: int,
            targets: int,
            step: Hashable,
            number: int,
            place: Place | None,
            relation: Relation | None,
        ) -> Between:
            key: Hashable = (id(edge_index), number) if shared else (layer, call, step, number)
            if key not in present.between:
                if self.generator.device != edge_index.device:
                    self.generator = branched(self.generator, device=edge_index.device)
                batches = self.batch_for(sources, relation), self.batch_for(targets, relation, -1)
                if (batches[0] is None or batches[1] is None) and self.rates_at(1.0).q:
                    present.note_mixed(layer)
                drawn = Between.draw(edge_index, sources, targets, self.rates_at, self.generator, batches)
                if place is not None:
                    other = present.of_relation.get((place.reverse, call, number))
                    drawn = drawn.as_reverse_of(other) if isinstance(other, Between) else drawn
                    present.of_relation[place.own, call, number] = drawn
                present.between[key] = edge_index, drawn  # alive, lest another takes its place in memory
            return present.between[key][1]

        return view

    def knows(self, edge_index: Tensor, nodes: int, relation: Relation | None = None) -> bool:
        """Whether the graph of an ``edge_index`` was sorted before."""
        directed = True if self.setting.views.directed else None
        batch = self.batch_for(nodes, relation)
        return self._graphs.known((edge_index, batch), (nodes, directed, relation))

    def batch_for(self, nodes: int, relation: Relation | None = None, end: int = 0) -> Tensor | None:
        """The batch vector of the present call, for layers with as many nodes; None if there are several such.

        relation, end: the edge type whose sources (0) or targets (−1) the nodes are, if it is known.
        """
        batch = (self.current or self._pass()).batch
        if batch is None or isinstance(batch, Tensor):
            return batch if batch is not None and batch.numel() == nodes else None
        kind = written(relation[end]) if isinstance(relation, tuple) else None
        own = {name: vector for name, vector in batch.items() if written(name) == kind}
        fitting = [vector for vector in (own or batch).values() if vector.numel() == nodes]
        alike = all(torch.equal(fitting[0], other) for other in fitting[1:])
        return fitting[0] if fitting and alike else None

    def rates_at(self, density: float) -> Rates:
        """Those of a relation, whose q = ρD follows from its own density."""
        if self.setting.rates is not None:
            return self.setting.rates
        return Rates(float(self.source.p), min(float(self.source.rho) * density, 1.0))

    def distribution(self, graph: Graph, training: bool) -> Distribution:
        """That of the views of a graph, the same object for the same rates."""
        setting = self.setting
        if graph in self._relations:
            rates = self.rates_at(graph.density)
        else:
            # Those of a pass, by its first graph: a pooled one is treated in evaluation as in training.
            first = graph if self.current is None or self.current.graph is None else self.current.graph
            if setting.rates is not None:
                rates = setting.rates
            elif training or not setting.variant.keeps_additions:
                rates = self.source.rates_at(first.density)
            else:
                rates = self.source.rates_for(first)
        key = (graph, rates, setting.noise, setting.trust)
        found = self._distributions.pop(key, None)
        if found is None:
            self._check_noise(graph)
            rest = (setting.variant, setting.correction, setting.views, setting.noise, setting.trust)
            found = Distribution(graph, rates, *rest)
            if len(self._distributions) == KEPT:
                del self._distributions[next(iter(self._distributions))]
        self._distributions[key] = found  # the latest used are kept
        return found

    def _check_noise(self, graph: Graph) -> None:
        """Refuse noise that leaves no real edge in the first graph that has it; warn once of a later, sparser one."""
        noise, q = self.setting.noise, self.setting.noise.numbers[1]
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

    def views_for(self, layer: Module, graph: Graph, mode: Mode, kind: int = 0) -> Find:
        """What each step of one call of a layer aggregates over, by its number; so are several views of a step.

        kind: which it is of the graphs that one call has, those of its relations.
        """
        if mode == "clean":
            return lambda step, number=0: Adjacency(graph)
        present = self.current or self._pass()
        present.drew = True
        if present.graph is None:
            present.graph = graph
            if self.setting.mode is None and layer.training:
                self.source.see(graph)
                if self.setting.variant.keeps_additions:
                    self.source.count(graph)
        distribution = present.distributions.get(graph)
        if distribution is None:
            distribution = present.distributions[graph] = self.distribution(graph, mode == "views")
            doubtful = present.batch is not None and graph.num_graphs == 1 and distribution.rates.q
            if doubtful and self.batch_for(graph.num_nodes, layer.__dict__.get("_relation")) is None:
                present.note_mixed(layer)
        if mode == "mean":
            return lambda step, number=0: Adjacency(graph, distribution)
        shared = self.setting.views.shared
        call = 0 if shared else present.enter(layer) if kind == 0 else present.calls[layer]

        def adjacency(step: int, number: int = 0) -> Adjacency:
            key: Hashable = (graph, number) if shared else (layer, call, kind, step, number)
            drawn = present.views.get(key)
            if drawn is None:
                drawn, place = self.draw(distribution), layer.__dict__.get("_place")
                if place is not None:
                    other = present.of_relation.get((place.reverse, call, kind, step, number))
                    drawn = as_reverse_of(drawn, other) if isinstance(other, View) else drawn
                    present.of_relation[place.own, call, kind, step, number] = drawn
                present.views[key] = drawn
            return Adjacency(graph, distribution, drawn)

        return adjacency

    @property
    def repeats(self) -> bool:
        """Whether a backward pass computes a pass again that it came to, for activation checkpointing."""
        task = torch._C._current_graph_task_id()
        return task >= 0 and self.reached is not None and self.reached.within != task

    def note_plain(self, layer: Module) -> None:
        """PyG's own aggregation ran in a layer where views, or their mean, were asked for."""
        if self.current is not None:
            self.current.plain.add(type(layer).__name__)

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

    def __getstate__(self) -> dict[str, object]:
        """Everything but what passes; the generator as its state, since generators cannot be pickled."""
        gone: dict[str, object] = {"current": None, "reached": None, "trace": None, "_distributions": {}}
        kept = {name: value for name, value in self.__dict__.items() if name != "_relations"}
        return kept | gone | {"generator": packed(self.generator)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        generator = torch.Generator()
        unpack(generator, state["generator"])
        self.__dict__.update(state | {"generator": generator, "_relations": WeakSet()})

    def __deepcopy__(self, memo: dict[int, object]) -> Context:
        """The same with a stream of its own: a teacher or an average must not see the model's views."""
        self._copies += 1
        source = deepcopy(self.source, memo)
        copy = memo[id(self)] = Context(self.setting, source, branched(self.generator, self._copies))
        return copy
