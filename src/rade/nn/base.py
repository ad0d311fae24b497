"""What the corrected convolutions share: which calls are PyG's own, and what rate control asks of the last layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.inspector import Inspector
from torch_geometric.nn import MLP, MessagePassing
from torch_geometric.nn import Linear as PyGLinear
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from rade.correction import propagate
from rade.graph.adjacency import Adjacency, LayerKey
from rade.graph.graph import Graph
from rade.graph.messages import Messages
from rade.graph.sparse import is_sparse
from rade.moments.base import Coefficients, Sent
from rade.nn.linear import linear, linear_of_sums
from rade.nn.plain import is_plain, weight_of
from rade.nn.precision import in_full_precision

SUMS = {SumAggregation: "sum", MeanAggregation: "mean"}


class CorrectedConv:
    """A PyG convolution that also accepts an `Adjacency` as ``edge_index``: a `Graph`, a `View`, a `MeanView`.

    Mixed in before the PyG class, whose constructor and parameters it keeps. Given a tensor it *is* the PyG layer.
    """

    added_weight: float | None = None  # of an added edge, where edges have weights; None: their mean within the graph
    hears_everybody = False  # whether features of all nodes must be given, even where few rows are asked for

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _on_views(cls.__dict__["forward"])  # type: ignore[attr-defined]
        # PyG reads the arguments of `propagate` from the source of a class, found by its *name*: a layer named like
        # its parent hides them, so they are stated as the attributes that PyG asks for first.
        parent = next(base for base in cls.__mro__[1:] if issubclass(base, MessagePassing))
        inspector = Inspector(parent)
        for call in ("propagate", "edge_updater"):
            parameters = inspector.get_params_from_method_call(call, exclude=[0, "edge_index", "size"])
            setattr(cls, f"{call}_type", {name: parameter.type for name, parameter in parameters.items()})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check_options()

    aggregations: ClassVar[tuple[str, ...]] = ("add", "sum")  # what PyG's ``aggr`` may be: those that have moments here

    def check_options(self) -> None:
        """Refuse constructor options that have no meaning on a random view."""
        self.refuse("flow", self._option("flow"), ("source_to_target",))
        self.refuse("aggr", self.aggregation, self.aggregations)
        if self._option("cached", False):
            raise ValueError(
                f"{type(self).__name__}(cached=True) would keep its first view forever; build it with cached=False "
                "(a Graph is sorted and normalised only once anyway)"
            )
        if isinstance(self._option("in_channels", 1), tuple):
            raise ValueError(f"{type(self).__name__} with a tuple in_channels is bipartite, which views do not support")

    @property
    def aggregation(self) -> Any:
        """The name of the module that PyG aggregates with; ``aggr`` may be that module, or was set later, unheard."""
        module = self.__dict__["_modules"].get("aggr_module")
        return next((name for kind, name in SUMS.items() if type(module) is kind), self._option("aggr"))

    @property
    def sees_self_loops(self) -> bool:
        """Whether PyG's layer would use self-loops of the given edge_index, rather than put its own in their place."""
        return not self._option("add_self_loops", False)

    @property
    def bends(self) -> str:
        """The option by which it is not linear in its sum, "" for none: the sum keeps its expectation, the rest not."""
        return ""

    def refuse(self, option: str, value: Any, allowed: tuple[Any, ...]) -> None:
        """One sentence for an option outside of what is supported."""
        if value not in allowed:
            raise ValueError(
                f"{type(self).__name__}({option}={value!r}) is not supported on random views; "
                f"use {option}={' or '.join(map(repr, allowed))}"
            )

    def _option(self, name: str, default: Any = None) -> Any:
        return self.__dict__.get(name, default)  # PyG keeps its options as plain attributes; not every layer has each

    def send(
        self, adjacency: Adjacency, coefficients: Coefficients, messages: Tensor | Messages, step: int = 0
    ) -> Tensor:
        """Aggregate messages over this layer's own view; a layer with several steps numbers them."""
        return propagate(adjacency.for_layer(self.layer_key(step)), coefficients, messages)

    def layer_key(self, step: int = 0) -> LayerKey:
        """By which a layer finds the view of its own."""
        return self, step

    def send_mapped(self, layer: Any, adjacency: Adjacency, coefficients: Coefficients, x: Tensor) -> Tensor:
        """Σ_j α_ij Θx_j: a linear map Θ and the sum commute, and the cheaper order is taken."""
        if sums_first(adjacency, x, layer) and layer.bias is None:
            return linear(layer, self.send(adjacency, coefficients, x))
        return self.send(adjacency, coefficients, linear(layer, x))

    def send_through(self, layer: Any, adjacency: Adjacency, coefficients: Coefficients, x: Tensor) -> Tensor:
        """Θ Σ_j α_ij x_j + b, likewise."""
        send = partial(self.send, adjacency, coefficients)
        return linear_of_sums(layer, x, send, sums_first(adjacency, x, layer))

    @abstractmethod
    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What this layer sends on the clean graph, pushed to the logits.

        ``head`` [C, F_out] is the linear map from this layer's output to the logits, None where they are the same;
        activations in between are dropped, the paper's linear assumption.
        """
        raise ValueError(f"{type(self).__name__} has no method sent, which tells what it sends; see docs/wrapper.md")


def _on_views(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A layer's forward on views: they are told of the call, features must be theirs, sums are in full precision."""

    @wraps(forward)
    def checked(self: CorrectedConv, *args: Any, **kwargs: Any) -> Any:
        adjacency = next((value for value in (*args, *kwargs.values()) if isinstance(value, Adjacency)), None)
        if adjacency is None:
            return forward(self, *args, **kwargs)
        adjacency.enter(self)
        x = args[0] if args else kwargs.get("x")
        if isinstance(x, tuple):
            raise ValueError(
                f"{type(self).__name__} got a tuple of features, of sources and of targets, which is bipartite: views "
                "are of one kind of nodes; pass x alone, or leave the layer out of the wrapped model"
            )
        if isinstance(x, Tensor) and len(x) != adjacency.fed:
            raise ValueError(
                f"{type(self).__name__} got features of {len(x)} nodes on a graph of {adjacency.fed}; nodes without "
                "edges count as well: pass the graph as rade.Graph.from_edge_index(edge_index, num_nodes=...)"
            )
        return in_full_precision(partial(forward, self), x, args, kwargs)

    return checked


def convolutions(model: torch.nn.Module) -> dict[str, CorrectedConv]:
    """The corrected convolutions of a model by path."""
    return {path: module for path, module in model.named_modules() if isinstance(module, CorrectedConv)}


def sums_first(adjacency: Adjacency, x: Tensor, layer: Any) -> bool:
    """Whether to sum features and map the sums: by the number of multiplications, for dense x [m, F_in].

    Few rows make the map cheap after the sum, narrow features the sum before it; and features without a gradient
    need no backward pass through a sum that comes first.
    """
    if is_sparse(x) or not is_plain(layer) or not adjacency.linear:
        return False
    wide, narrow = layer.weight.shape
    rows = adjacency.rows
    entries = adjacency.graph.pattern.size * rows / max(adjacency.graph.num_nodes, 1)
    before = len(x) * wide * narrow + entries * wide * (2 if torch.is_grad_enabled() else 1)
    after = rows * wide * narrow + entries * narrow * (2 if x.requires_grad else 1)
    return bool(after < before)


def own_linear(layer: Any, adjacency: Adjacency, x: Tensor) -> Tensor:
    """What ``layer`` makes of the features of the nodes that are aggregated for."""
    if is_sparse(x):
        return adjacency.own(linear(layer, x))
    return linear(layer, adjacency.own(x))


def pushed(head: Tensor | None, weight: Tensor) -> Tensor:
    """head · weight, with None for the identity."""
    return weight if head is None else head @ weight


def linear_part(head: Tensor | None, module: torch.nn.Module) -> Tensor | None:
    """head · (the linear part of ``module``): activations and dropout are passed over, batch norm scales."""
    if isinstance(module, torch.nn.Linear | PyGLinear):
        return pushed(head, weight_of(module))
    if isinstance(module, torch.nn.Sequential):
        for layer in reversed(module):
            head = linear_part(head, layer)
        return head
    if isinstance(module, MLP):
        for layer, norm in reversed(list(zip(module.lins, [*module.norms, torch.nn.Identity()]))):
            head = linear_part(linear_part(head, norm), layer)
        return head
    scale = _norm_scale(module)
    if scale is None:
        if any(True for _ in module.parameters()):
            raise ValueError(
                f"cannot push messages through {type(module).__name__} inside a convolution: rate control needs layers "
                "made of Linear, batch norm, activations and dropout; rule=rade.Constant() uses fixed rates instead"
            )
        return head
    return torch.diag(scale) if head is None else head * scale


def _norm_scale(module: torch.nn.Module) -> Tensor | None:
    """γ/√(running variance + ε) of a batch norm, which is what it does to a deviation at inference."""
    inner = module.module if type(module).__name__ == "BatchNorm" else module
    if not isinstance(inner, torch.nn.BatchNorm1d) or inner.running_var is None:
        return None
    scale = (inner.running_var + inner.eps).rsqrt()
    return scale * inner.weight if inner.affine else scale
