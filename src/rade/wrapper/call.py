"""Finding the graph among the arguments of a model's forward, by parameter name, and putting a view in its place."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data

from rade.graph.adjacency import Adjacency
from rade.graph.build import graph_of
from rade.graph.graph import Graph
from rade.memory import Recall
from rade.nn.base import CorrectedConv
from rade.nn.linear import is_sparse
from rade.nn.rows import Wanted

_NOT_FEATURES = ("batch", "ptr", "edge_weight", "edge_attr")
_TRIMMING = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")


@dataclass(frozen=True)
class Call:
    """One call of a model: its arguments by name, and where the graph is."""

    arguments: Mapping[str, Any]
    positional: tuple[str, ...]
    holder: str  # the argument that is, or holds, the edge_index
    edge_index: Tensor | Adjacency
    batch: Tensor | None
    ptr: Tensor | None
    x: Tensor | None
    num_nodes: int | None

    @property
    def rows(self) -> Tensor | None:
        """The nodes whose logits the model is asked for, None for all."""
        asked = [value.rows for value in self.arguments.values() if isinstance(value, Wanted)]
        return asked[0] if asked else None

    def asking(self, rows: Tensor) -> Call:
        """The same call for the logits of other nodes; only where it asks for some."""
        asked = {name: Wanted(rows) for name, value in self.arguments.items() if isinstance(value, Wanted)}
        return replace(self, arguments={**self.arguments, **asked})

    def with_graph(self, adjacency: Adjacency) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the same call on another adjacency; a Data object is copied, never changed."""
        arguments = dict(self.arguments)
        held = arguments[self.holder]
        if isinstance(held, Data):
            replaced = copy.copy(held)
            replaced.edge_index = adjacency
        else:
            replaced = adjacency
        arguments[self.holder] = replaced
        positional = tuple(arguments.pop(name) for name in self.positional)
        return positional, arguments


def read_call(names: tuple[str, ...], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Match arguments with the parameters ``names`` of a model's forward and find the graph, called ``name``."""
    if len(args) > len(names):
        raise TypeError(f"the model takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
    positional = tuple(names[: len(args)])
    arguments = {**dict(zip(positional, args)), **kwargs}
    for option in _TRIMMING:
        if arguments.get(option) is not None:
            raise ValueError(f"layer trimming ({option}) cuts a different graph for each layer; leave it out with RADE")
    held = arguments.get(name)
    if held is not None:
        return _from_tensors(arguments, positional, name)
    for holder, value in arguments.items():
        if isinstance(value, Data):
            return _from_data(arguments, positional, holder, value)
    raise ValueError(
        f"expected the graph as argument {name!r} or as a PyG Data object, got ({', '.join(arguments)}); if the "
        "model calls it otherwise, say RADE(model, edge_index_arg=...)"
    )


def parameters_of(model: Module) -> tuple[str, ...]:
    """The positional parameters of ``model.forward``; refuses a model that takes what `adapt` takes."""
    signature = model.__dict__.get("signature")  # torch_geometric.nn.Sequential keeps its own
    if signature is not None:
        return tuple(signature.param_dict)
    parameters = inspect.signature(model.forward).parameters
    if "labelled" in parameters:
        raise ValueError(
            f"{type(model).__name__}.forward has a parameter named 'labelled', which RADE.adapt keeps for itself; "
            "rename it"
        )
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(name for name, p in parameters.items() if p.kind in kinds)


def _from_tensors(arguments: dict[str, Any], positional: tuple[str, ...], name: str) -> Call:
    features = [
        value
        for key, value in arguments.items()
        if key != name and key not in _NOT_FEATURES and isinstance(value, Tensor) and value.dim() >= 1
    ]
    x = arguments["x"] if isinstance(arguments.get("x"), Tensor) else features[0] if features else None
    return Call(
        arguments,
        positional,
        name,
        arguments[name],
        _tensor(arguments.get("batch")),
        _tensor(arguments.get("ptr")),
        x,
        None if x is None else x.shape[0],
    )


def _from_data(arguments: dict[str, Any], positional: tuple[str, ...], holder: str, data: Data) -> Call:
    if data.edge_index is None:
        raise ValueError("the Data object has no edge_index; RADE needs [2, E] edges (not adj_t)")
    batch = _tensor(data.get("batch"))
    return Call(arguments, positional, holder, data.edge_index, batch, None, _tensor(data.x), data.num_nodes)


def _tensor(value: Any) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


def find_graph(call: Call, model: Module, known: Recall[Graph]) -> Graph:
    """The graph of a call: sorted and validated once for every new ``edge_index``."""
    require_finite(call.x)
    graph = graph_of(call.edge_index, call.num_nodes, call.batch, call.ptr, known)
    if graph.self_loops:
        graph.once(("self-loops", model), lambda: _warn_of_loops(graph, model))
    return graph


def _warn_of_loops(graph: Graph, model: Module) -> None:
    if any(conv.sees_self_loops for conv in model.modules() if isinstance(conv, CorrectedConv)):
        warnings.warn(
            f"edge_index holds {graph.self_loops} self-loops, which the model's own layers would use and RADE leaves "
            "out, in training and at inference; remove them first (torch_geometric.utils.remove_self_loops)",
            stacklevel=2,
        )


def require_finite(x: Tensor | None) -> None:
    """Refuse features with NaN or infinity; what another module computed (and may learn to avoid) is let through."""
    if x is None or x.requires_grad or not x.is_floating_point():
        return
    values = x.values() if is_sparse(x) else x
    _finite.get((values,), None, lambda: _check_finite(values))  # once for each tensor in memory


_finite: Recall[None] = Recall()


def _check_finite(values: Tensor) -> None:
    # The sum alone tells almost always, in one pass and without a mask; finite values may still overflow it.
    if not bool(torch.isfinite(values.sum())) and not bool(torch.isfinite(values).all()):
        raise ValueError("features x must be finite, got NaN or infinity; clean them first (torch.nan_to_num)")


def on_clean(adjacency: Adjacency, call: Call) -> Any:
    """Layers that cannot take a view get the caller's own edge_index."""

    def hook(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = call.edge_index.edge_index if isinstance(call.edge_index, Graph) else call.edge_index
        swap = {key: given if value is adjacency else value for key, value in kwargs.items()}
        return tuple(given if value is adjacency else value for value in args), swap

    return hook
