"""Finding the graph among the arguments of a model's forward, by parameter name, and putting a view in its place."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data

from rade.graph.graph import Graph
from rade.nn.base import CorrectedConv
from rade.nn.linear import is_sparse

_NOT_FEATURES = ("batch", "ptr", "edge_weight", "edge_attr")
_TRIMMING = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")


@dataclass(frozen=True)
class Call:
    """One call of a model: its arguments by name, and where the graph is."""

    arguments: Mapping[str, Any]
    positional: tuple[str, ...]
    holder: str  # the argument that is, or holds, the edge_index
    edge_index: Any
    batch: Tensor | None
    ptr: Tensor | None
    x: Tensor | None
    num_nodes: int | None

    def with_graph(self, adjacency: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
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


def read_call(model: Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Match the arguments with the parameters of ``model.forward`` and find the graph in them."""
    names = _parameters(model)
    if len(args) > len(names):
        raise TypeError(f"{type(model).__name__} takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
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


def _parameters(model: Module) -> list[str]:
    signature = model.__dict__.get("signature")  # torch_geometric.nn.Sequential keeps its own
    if signature is not None:
        return list(signature.param_dict)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, p in inspect.signature(model.forward).parameters.items() if p.kind in kinds]


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


def build_graph(call: Call, model: Module) -> Graph:
    """Sort and validate the graph: what happens once for every new ``edge_index``."""
    if not isinstance(call.edge_index, Tensor):
        kind = type(call.edge_index).__name__
        raise ValueError(f"edge_index must be a tensor of shape [2, E] or a rade.Graph, got {kind}")
    graph = Graph.from_edge_index(call.edge_index, call.num_nodes, call.batch, call.ptr)
    if graph.self_loops and any(conv.sees_self_loops for conv in model.modules() if isinstance(conv, CorrectedConv)):
        warnings.warn(
            f"edge_index holds {graph.self_loops} self-loops, which the model's own layers would use and RADE leaves "
            "out, in training and at inference; remove them first (torch_geometric.utils.remove_self_loops)",
            stacklevel=2,
        )
    return graph


def require_finite(x: Tensor | None) -> None:
    """Refuse features with NaN or infinity; what another module computed (and may learn to avoid) is let through."""
    if x is None or x.requires_grad or not x.is_floating_point():
        return
    values = x.values() if is_sparse(x) else x
    # The sum alone tells almost always, in one pass and without a mask; finite values may still overflow it.
    if not bool(torch.isfinite(values.sum())) and not bool(torch.isfinite(values).all()):
        raise ValueError("features x must be finite, got NaN or infinity; clean them first (torch.nan_to_num)")


def on_clean(adjacency: Any, call: Call) -> Any:
    """Layers that cannot take a view get the caller's own edge_index."""

    def hook(_: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = call.edge_index.edge_index if isinstance(call.edge_index, Graph) else call.edge_index
        swap = {key: given if value is adjacency else value for key, value in kwargs.items()}
        return tuple(given if value is adjacency else value for value in args), swap

    return hook
