"""What converted convolutions share: who aggregates, PyG or RADE, and over what."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial, wraps
from types import FunctionType, MappingProxyType
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.inspector import Inspector
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import SumAggregation

from rade.correction import Adjacency
from rade.distribution import Relation
from rade.graph.graph import Graph
from rade.graph.sparse import is_sparse, places, without_autocast
from rade.moments.base import Coefficients
from rade.nn.context import Arguments, Context, Find, Mode
from rade.nn.edge_values import Imputed, listed_edges
from rade.nn.export import exporting, mean_of_views, tracing
from rade.nn.linear import dense, is_plain, linear, linear_of_sums, linear_part
from rade.nn.pairs import aggregate_pairs
from rade.nn.relations import Relations
from rade.nn.trace import After, Aggregated
from rade.runtime import ordinary_tensors
from rade.sums import Messages

Rows = tuple[Tensor | None, Tensor | None]  # the nodes that sums are wanted for, and those with features; None: all
EVERYBODY: Rows = (None, None)
SHORT = (torch.float16, torch.bfloat16)
UNREADABLE = (
    "the layer's forward reads its edge_index, which holds no single list of edges where RADE sums over views: compute "
    "it in message(), or register a twin with a forward on views, `on` (docs/theory.md, Add an aggregator)"
)
# Whether `torch.func` differentiates or maps the model: it knows PyG's operations, not RADE's sums.
transforming = torch._C._functorch.peek_interpreter_stack
HOOKS = tuple(
    f"_{what}_forward_{when}hooks"
    for what in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("", "pre_")
)


class LayerViews:
    """What one call of a layer aggregates over, in the place of its edge_index: a view of its own for every step."""

    def __init__(self, graph: Graph, find: Find, rows: Rows = EVERYBODY, linear: bool = True) -> None:
        self.graph, self._rows, self._find, self._step = graph, rows, find, 0
        self.linear = linear  # whether linear maps and sums may change places
        targets, sources = rows
        self.nodes = graph.num_nodes if sources is None else sources.numel()  # how many have features
        self.rows = graph.num_nodes if targets is None else targets.numel()  # for how many sums are wanted

    def next(self) -> Adjacency:
        """The adjacency of the next step."""
        found = self._find(self.graph, self._step)
        self._step += 1
        if self._rows is EVERYBODY:
            return found
        targets, sources = self._rows
        return replace(found, targets=targets, sources=sources)

    def __getitem__(self, index: object) -> Tensor:
        raise TypeError(UNREADABLE)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(UNREADABLE, name=name, obj=self)

    def own(self, x: Tensor) -> Tensor:
        """The features of the nodes that sums are wanted for."""
        targets, sources = self._rows
        if targets is None:
            return x
        return x.index_select(0, targets if sources is None else places(sources, self.graph.num_nodes)[targets])


class CorrectedConv:
    """A PyG convolution that aggregates over views, in training, when a model of its is wrapped in RADE.

    Mixed in before the PyG class, whose constructor and parameters it keeps. On its own it *is* the PyG layer, and
    takes a `Graph` or an `Adjacency` as ``edge_index`` as well. A layer with moments has `coefficients`; what PyG's own
    forward hands to `propagate` is then summed with these. One without is corrected by pairs of views.
    """

    moments: ClassVar[bool] = True  # whether it has coefficients with moments
    aggregations: ClassVar[tuple[type[Module], ...]] = (SumAggregation,)  # of PyG's ``aggr`` those that have
    scores: ClassVar[bool] = False  # whether coefficients are made of features, which must then come of all nodes
    added_weight: float | None = None  # of an added edge, where edges have weights; None: their mean within the graph
    added_attr: Imputed = "mean"  # of an added edge, where edges have attributes: a choice of `imputed`, or a row
    _context: Context | None = None
    _relation: Relation | None = None  # the edge type that it is for, in a heterogeneous model
    _reverses: Relations = MappingProxyType({})  # of the relations that it aggregates over at once
    _plain: ClassVar[type[MessagePassing]]
    _names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        above: list[Any] = [base for base in cls.__mro__[1:] if issubclass(base, MessagePassing)]
        plain = next((base for base in above if not issubclass(base, CorrectedConv)), None)
        if plain is None:  # what several layers share
            return
        cls._plain = plain
        cls._names = tuple(inspect.signature(plain.forward).parameters)[1:]
        own = FunctionType(_forward.__code__, _forward.__globals__)  # one for each class, since it has its signature
        own.__kwdefaults__ = _forward.__kwdefaults__
        cls.forward = wraps(plain.forward)(own)  # type: ignore[attr-defined]
        # PyG puts a compiled `propagate` into a class when a layer is built or explained, unless it has its own.
        for name in ("propagate", "_orig_propagate", "_jinja_propagate"):
            setattr(cls, name, _propagate)
        # PyG reads the arguments of these from the source of a class, found by its *name*: a layer named like its
        # parent hides them, so they are stated as the attributes that PyG asks for first. A class that was typed into a
        # notebook, or made by `torch.nn.utils.parametrize`, has no source; PyG does without, too.
        inspector = Inspector(plain)
        for call in ("propagate", "edge_updater"):
            with suppress(OSError, TypeError):
                parameters = inspector.get_params_from_method_call(call, exclude=[0, "edge_index", "size"])
                setattr(cls, f"{call}_type", {name: parameter.type for name, parameter in parameters.items()})

    # ---- what a layer with moments says ---------------------------------------------------------------------------

    def coefficients(self, graph: Graph, x: Tensor, **inputs: Any) -> Coefficients:
        """α_ij of its sums, from the features and whatever else PyG hands to ``propagate``."""
        raise NotImplementedError

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        """The linear map from its last sum, of ``width`` features, to the logits, given that from its output.

        None is the identity; activations in between are dropped, the paper's linear assumption.
        """
        return head

    def on(self, *args: Any, **given: Any) -> Any:
        """Its forward with `LayerViews` as edge_index: PyG's own, on dense features, whose sums are taken over them."""
        return self._plain.forward(self, *args, **{**given, "x": dense(given["x"])})

    def against_moments(self) -> str:
        """Why the layer as it was built has no moments, "" where it has."""
        if not self.moments:
            return "no moments of its coefficients are known; rade.register tells those of a layer of your own"
        if self.__dict__["flow"] != "source_to_target":
            return f"flow={self.__dict__['flow']!r} has none"
        aggregation = self.__dict__["_modules"].get("aggr_module")
        if aggregation is not None and type(aggregation) not in self.aggregations:
            return f"{type(aggregation).__name__} is no weighted sum with moments"
        return ""

    @property
    def uses_self_loops(self) -> bool:
        """Whether PyG's layer uses self-loops of the given edge_index, rather than put its own in their place."""
        return not self._option("add_self_loops", False)

    @property
    def nonlinear(self) -> str:
        """The option by which it is not linear in its sum, "" for none: the sum keeps its expectation, the rest not."""
        return ""

    # ---- for the layer to call ------------------------------------------------------------------------------------

    def send(
        self,
        views: LayerViews,
        coefficients: Coefficients,
        messages: Tensor | Messages,
        after: After | None = None,
        own: Tensor | None = None,
    ) -> Tensor:
        """Aggregate messages over this step's view; ``after`` is as `after_sum`, where that depends on the call.

        own: [1] what each node adds of its own messages, a constant.
        """
        adjacency = views.next()
        given = (coefficients, messages)
        out = adjacency.aggregate(*given) if own is None else adjacency.aggregate(*given, own)
        if self._context is not None and self._context.here.trace is not None:
            width = (messages.nodes if isinstance(messages, Messages) else messages).shape[-1]
            follows = partial(self.after_sum, width=width) if after is None else after
            out = self._context.here.trace.aggregated(Aggregated(adjacency, coefficients, messages, out, follows))
        return out

    def send_through(self, layer: Any, views: LayerViews, coefficients: Coefficients, x: Tensor) -> Tensor:
        """Θ Σ_j α_ij x_j + b: a linear map and the sum commute, and the cheaper order is taken."""

        def sums(features: Tensor, follows: bool) -> Tensor:
            return self.send(views, coefficients, features, lambda head: linear_part(head, layer) if follows else head)

        return linear_of_sums(layer, x, sums, sums_first(views, x, layer))

    def for_targets(self, targets: Tensor, x: Tensor, *args: Any, sources: Tensor | None = None) -> Any:
        """Its output for some nodes [k] only; ``edge_index`` is a `Graph` or an `Adjacency`.

        sources: [m] the nodes whose features are given, all if None: the targets and those that send to them.
        """
        return _forward(self, x, *args, rows=(targets, sources))

    # ---- who aggregates -------------------------------------------------------------------------------------------

    def _over(self, adjacency: Adjacency, given: Arguments, rows: Rows) -> Any:
        """Over what the caller chose; without moments that is the clean graph alone, by PyG's own code."""
        graph = adjacency.graph
        against = self.against_moments() or ("" if self.moments_on(graph, given) else "none with these arguments")
        if not against:
            return self._corrected(given, LayerViews(graph, lambda *_: adjacency, rows, adjacency.linear))
        if adjacency.distribution is not None:
            raise ValueError(
                f"{type(self).__name__} has no moments, {against}: it cannot be summed over views by itself; wrap the "
                "model in rade.RADE, which corrects it by pairs of views"
            )
        out = self._plain.forward(self, **{**given, "edge_index": graph.given})
        return out if rows[0] is None else out[rows[0]]

    def _in_context(self, context: Context, given: Arguments, rows: Rows) -> Any:
        """On views in training; in evaluation PyG's own, or faster, to the same end, where the graph is known."""
        edge_index, x = given.get("edge_index"), given.get("x")
        mode = context.mode_of(cast(Module, self))
        if isinstance(edge_index, Tensor) and edge_index.layout is not torch.strided:
            given = given if mode == "clean" and context.here.trace is None else listed_edges(self._names, given)
            edge_index = given["edge_index"]
        if rows is not EVERYBODY and context.here.current is not None:
            context.here.current.targets = rows[0]
        if mode != "clean" and transforming() is not None:
            raise RuntimeError(
                "torch.func transforms (grad, vmap, jvp) know the plain model alone, which RADE-OF is in evaluation: "
                "call model.eval(), or train by loss.backward() or torch.autograd.grad, also through functional_call"
            )
        if mode != "clean" and (tracing() is not None or exporting()):
            graph = cast(Any, mean_of_views(cast(Module, self), context, given, mode))
            if not self.moments_on(graph, given):
                raise graph.refusal
            return self._corrected(given, LayerViews(graph, lambda *_: graph, linear=False))
        graph = self._graph(context, edge_index, x, mode)
        against = self._against(graph, given, context)
        if graph is not None and not against:
            return self._corrected(given, LayerViews(graph, context.views_for(cast(Module, self), mode), rows))
        if isinstance(edge_index, Graph):
            given = {**given, "edge_index": edge_index.given}
        if mode == "views":
            if context.here.current is not None:
                context.here.current.by_pairs[cast(Module, self)] = against
            return aggregate_pairs(self, context, graph, given)
        if mode == "mean":
            context.note_plain(cast(Module, self))
        return self._plain.forward(self, **given)

    def _graph(self, context: Context, edge_index: object, x: object, mode: Mode) -> Graph | None:
        """The graph that RADE sums over; None where PyG's own code must run."""
        if isinstance(edge_index, Graph):
            return edge_index
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided or not isinstance(x, Tensor):
            return None
        if x.dim() != 2 or edge_index.dtype != torch.long or not x.is_floating_point():
            return None
        if mode == "clean" and context.here.trace is None:
            fixed = tracing() is not None or torch.compiler.is_compiling() or self._option("cached", False)
            if fixed or transforming() is not None or _against_sums(x):
                return None
            known = context.knows(edge_index, x.shape[0], self._relation)
            if not known and not is_sparse(x):  # PyG's take no sparse features
                return None
        return context.graph_of(edge_index, x.shape[0], self._relation)

    def _against(self, graph: Graph | None, given: Arguments, context: Context) -> str:
        """Why what PyG's layer would compute from this call is no sum with moments, "" where it is."""
        if graph is None:
            return "it is not called on the nodes of one graph"
        if reason := self.against_moments():
            return reason
        if context.setting.correction.by == "pairs":
            return 'as Correction(by="pairs") says'
        if graph.entry is not None:
            weighs = given.get("edge_weight") is not None or given.get("edge_attr") is not None
            if graph.repeated or (graph.self_loops and (weighs or self.uses_self_loops)):
                return "its edge_index has self-loops or repeated edges; coalesce it for moments"
        if given.get("size") is not None or given.get("return_attention_weights") is not None:
            return "it is called with size or return_attention_weights"
        if self.__dict__["_explain"] or any(self._hooks):
            return "hooks or an explainer look at its messages"
        return "" if self.moments_on(graph, given) else "none with these arguments"

    @cached_property
    def _hooks(self) -> tuple[object, ...]:
        """PyG's own: who looks at messages, or changes them, must see those of PyG."""
        return tuple([self.__dict__[name] for name in HOOKS])

    def moments_on(self, graph: Graph, given: Arguments) -> bool:
        """Whether there are moments with these arguments."""
        return True

    def _corrected(self, given: Arguments, views: LayerViews) -> Any:
        """The layer's output by RADE's sums, in full precision, whatever the caller's autocast says."""
        x = given["x"]
        if isinstance(x, Tensor) and x.shape[0] != views.nodes:  # len(x) would fix the number in an exported program
            raise ValueError(f"{type(self).__name__} got features of {x.shape[0]} nodes on a graph of {views.nodes}")
        given = {**given, "edge_index": views}
        if isinstance(x, Tensor) and torch.is_autocast_enabled(x.device.type):
            with without_autocast(x.device):
                return self.on(**{name: _whole(value) for name, value in given.items()})
        if isinstance(x, Tensor) and (x.dtype in SHORT or x.layout is not torch.strided) and _against_sums(x):
            raise ValueError(_against_sums(x))
        return self.on(**given)

    def _option(self, name: str, default: Any = None) -> Any:
        return self.__dict__.get(name, default)  # PyG keeps its options as plain attributes; not every layer has each


def _forward(self: CorrectedConv, *args: Any, rows: Rows = EVERYBODY, **kwargs: Any) -> Any:
    """The forward of all layers; ``rows`` as in `CorrectedConv.for_targets`."""
    if torch.is_inference_mode_enabled():  # what is kept must serve training later
        with ordinary_tensors():
            return _forward(self, *args, rows=rows, **kwargs)
    given = {**dict(zip(self._names, args)), **kwargs}
    edge_index, context = given.get("edge_index"), self._context
    if context is None and isinstance(edge_index, Graph):
        edge_index = Adjacency(edge_index)
    if isinstance(edge_index, Adjacency):
        out = self._over(edge_index, given, rows)
    elif context is None:
        out = self._plain.forward(self, *args, **kwargs)
    elif torch.compiler.is_compiling() and context.mode_of(cast(Module, self)) != "clean":
        out = _as_it_is(self, context, given, rows)
    else:
        out = self._in_context(context, given, rows)
    if context is not None and context.here.trace is not None:
        context.here.trace.left(cast(Module, self), out)
    return out


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _as_it_is(layer: CorrectedConv, context: Context, given: Arguments, rows: Rows) -> Any:
    """A layer on views under `torch.compile`: every view has edges of its own, so there is no program to keep."""
    return layer._in_context(context, given, rows)


def _propagate(self: Any, edge_index: object, size: object = None, **inputs: Any) -> Tensor:
    """In the place of PyG's: sums over views by the layer's coefficients, PyG's own over anything else."""
    if not isinstance(edge_index, LayerViews):
        paired = self.__dict__.get("_paired")
        plain = MessagePassing.propagate if self.explain else self._plain.propagate
        aggregate = partial(plain, self, size=size, **inputs)
        return cast(Tensor, aggregate(edge_index) if paired is None else paired(edge_index, aggregate))
    x = inputs.pop("x")
    x = dense(x[0] if isinstance(x, tuple) else x)
    if x.dim() == 2:
        return cast(Tensor, self.send(edge_index, self.coefficients(edge_index.graph, x, **inputs), x))
    # Stacks of features, [K, n, F], travel side by side.
    flat = x.transpose(0, 1).flatten(1)
    out = self.send(edge_index, self.coefficients(edge_index.graph, flat, **inputs), flat)
    return cast(Tensor, out.view(out.shape[0], x.shape[0], out.shape[1] // x.shape[0]).transpose(0, 1))


def _against_sums(x: Tensor) -> str:
    """Why RADE cannot sum features, for want of kernels, "" where it can."""
    if x.dtype in SHORT and x.device.type == "cpu":
        return (
            "views are summed in float32 or float64 on a CPU, got features in "
            f"{str(x.dtype).removeprefix('torch.')}; keep the model in float32 and train under torch.autocast"
        )
    if x.layout not in (torch.strided, torch.sparse_csr):
        return f"features came as a matrix in {x.layout}; pass x.to_sparse_csr()"
    return ""


def _whole(value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.dtype in SHORT else value


def convolutions(model: Module) -> dict[str, CorrectedConv]:
    """The converted convolutions of a model by path."""
    return {path: module for path, module in model.named_modules() if isinstance(module, CorrectedConv)}


def sums_first(views: LayerViews, x: Tensor, layer: Any) -> bool:
    """Whether to sum features and map the sums: by the number of multiplications, for dense x [m, F_in].

    Few rows make the map cheap after the sum, narrow features the sum before it; and features without a gradient
    need no backward pass through a sum that comes first.
    """
    if x.layout is torch.sparse_csr or not views.linear or not is_plain(layer):
        return False
    wide, narrow = layer.weight.shape
    rows = views.rows
    entries = views.graph.pattern.size * rows / max(views.graph.num_nodes, 1)
    before = len(x) * wide * narrow + entries * wide * (2 if torch.is_grad_enabled() else 1)
    after = rows * wide * narrow + entries * narrow * (2 if x.requires_grad else 1)
    return bool(after < before)


def own_linear(layer: Any, views: LayerViews, x: Tensor) -> Tensor:
    """What ``layer`` makes of the features of the nodes that sums are wanted for."""
    if is_sparse(x):
        return views.own(linear(layer, x))
    return linear(layer, views.own(x))
