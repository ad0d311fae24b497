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
from torch_geometric.data import Data, HeteroData

from rade.errors import outside
from rade.graph.adjacency import Adjacency
from rade.graph.build import graph_of
from rade.graph.graph import Graph
from rade.graph.sparse import is_sparse
from rade.memory import Recall
from rade.nn.base import CorrectedConv
from rade.nn.rows import Wanted

_NOT_FEATURES = ("batch", "ptr")
_OF_EDGES = "edge_"  # how PyG begins the names of what edges have: edge_weight, edge_attr, edge_label_index
_TRIMMING = ("num_sampled_nodes_per_hop", "num_sampled_edges_per_hop")


@dataclass(frozen=True)
class Entry:
    """A method of a model that takes the graph: its parameters, and which of them are the graph and the batch vector.

    ``open_ended`` methods take ``*args``; what stands there is called by its position, and a graph is told by its form.
    """

    method: str
    names: tuple[str, ...]
    open_ended: bool
    graph: str
    batch: str

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Match arguments with parameters and find the graph."""
        names = self.names
        if len(args) > len(names):
            if not self.open_ended:
                raise TypeError(f"the model takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
            names = (*names, *(f"argument {k}" for k in range(len(names), len(args))))
        positional = names[: len(args)]
        arguments = {**dict(zip(positional, args)), **kwargs}
        for option in _TRIMMING:
            if arguments.get(option) is not None:
                raise ValueError(
                    f"layer trimming ({option}) cuts a different graph for each layer; leave it out with RADE"
                )
        return self._found(arguments, positional)

    def _found(self, arguments: dict[str, Any], positional: tuple[str, ...]) -> Call:
        if arguments.get(self.graph) is not None:
            return _from_tensors(self, arguments, positional, self.graph)
        for holder, value in arguments.items():
            if isinstance(value, Data):
                return _from_data(self, arguments, positional, holder, value)
        for holder in positional[len(self.names) :]:
            value = arguments[holder]
            if isinstance(value, Adjacency) or (isinstance(value, Tensor) and _is_edge_index(value)):
                return _from_tensors(self, arguments, positional, holder)
        if any(isinstance(value, HeteroData) or name.endswith("_dict") for name, value in arguments.items()):
            raise ValueError(
                f"the model takes several kinds of nodes or relations ({', '.join(arguments)}), and views are of one "
                "relation; wrap the part that sees a single one, or make the graph homogeneous with "
                "HeteroData.to_homogeneous()"
            )
        raise ValueError(
            f"expected the graph as argument {self.graph!r} or as a PyG Data object, got ({', '.join(arguments)}); if "
            f"the model calls it otherwise, say RADE(model, edge_index_arg={self._guess(arguments)})"
        )

    def _guess(self, arguments: dict[str, Any]) -> str:
        """The name of the argument that looks like a graph."""
        alike = (name for name, value in arguments.items() if isinstance(value, Tensor) and _is_edge_index(value))
        return repr(next(alike, ...)).replace("Ellipsis", "...")


def _is_edge_index(value: Tensor) -> bool:
    return value.dim() == 2 and value.shape[0] == 2 and value.dtype == torch.long


def entry_of(model: Module, method: str, graph: str, batch: str) -> Entry:
    """How ``model.method`` is called; refuses a method that takes what `adapt` takes, or lacks the named batch."""
    inner = model.__dict__.get("_modules", {}).get("_orig_mod", model)  # torch.compile hides the signature
    signature = inner.__dict__.get("signature")  # torch_geometric.nn.Sequential keeps its own
    if signature is not None and method == "forward":
        return Entry(method, tuple(signature.param_dict), False, graph, batch)
    if not callable(getattr(inner, method, None)):
        raise ValueError(f"methods names {method!r}, but {type(inner).__name__} has no such method")
    parameters = inspect.signature(getattr(inner, method)).parameters
    if "labelled" in parameters:
        raise ValueError(
            f"{type(inner).__name__}.{method} has a parameter named 'labelled', which RADE.adapt keeps for itself; "
            "rename it"
        )
    kinds = {parameter.kind for parameter in parameters.values()}
    if batch not in ("batch", "") and batch not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ValueError(f"batch_arg={batch!r} is no parameter of {type(inner).__name__}.{method}")
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(name for name, p in parameters.items() if p.kind in named)
    return Entry(method, names, inspect.Parameter.VAR_POSITIONAL in kinds, graph, batch)


def takes_graph(model: Module, name: str, graph: str) -> bool:
    """Whether an attribute of a model is a method, and no part, with a parameter for the graph."""
    method = getattr(type(model), name, None)
    return inspect.isfunction(method) and graph in inspect.signature(method).parameters


@dataclass(frozen=True)
class Call:
    """One call of a model: its arguments by name, and where the graph is."""

    entry: Entry
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

    def with_graph(self, adjacency: Tensor | Adjacency) -> tuple[tuple[Any, ...], dict[str, Any]]:
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


def _from_tensors(entry: Entry, arguments: dict[str, Any], positional: tuple[str, ...], name: str) -> Call:
    skipped = (*_NOT_FEATURES, entry.batch)
    features = [
        value
        for key, value in arguments.items()
        if key != name
        and key not in skipped
        and not key.startswith(_OF_EDGES)
        and isinstance(value, Tensor)
        and value.dim() >= 1
    ]
    x = arguments["x"] if isinstance(arguments.get("x"), Tensor) else features[0] if features else None
    return Call(
        entry,
        arguments,
        positional,
        name,
        arguments[name],
        _tensor(arguments.get(entry.batch)),
        _tensor(arguments.get("ptr")),
        x,
        None if x is None else x.shape[0],
    )


def _from_data(entry: Entry, arguments: dict[str, Any], positional: tuple[str, ...], holder: str, data: Data) -> Call:
    if data.edge_index is None:
        raise ValueError("the Data object has no edge_index; RADE needs [2, E] edges (not adj_t)")
    batch, ptr = (_tensor(data.get(name)) for name in (entry.batch, "ptr"))
    x, ptr = _tensor(data.x), ptr if batch is None else None
    return Call(entry, arguments, positional, holder, data.edge_index, batch, ptr, x, data.num_nodes)


def _tensor(value: Any) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


def find_graph(call: Call, model: Module, known: Recall[Graph], directed: bool = False) -> Graph:
    """The graph of a call: sorted and validated once for every new ``edge_index``."""
    _refuse_matrices(call.edge_index)
    if call.x is not None and call.x.layout not in (torch.strided, torch.sparse_csr):
        raise ValueError(f"features came as a matrix in {call.x.layout}; pass x.to_sparse_csr(), or a dense one")
    graph = graph_of(call.edge_index, call.num_nodes, call.batch, call.ptr, known, directed)
    if graph.self_loops:
        graph.once(("self-loops", model), lambda: _warn_of_loops(graph, model))
    return graph


def _refuse_matrices(edge_index: Tensor | Adjacency) -> None:
    if isinstance(edge_index, Mapping):
        raise ValueError(
            "the graph came as a dict of relations (HeteroData, to_hetero); views are of one relation: wrap a model "
            "of a homogeneous graph, data.to_homogeneous()"
        )
    sparse = isinstance(edge_index, Tensor) and edge_index.layout != torch.strided
    if sparse or type(edge_index).__name__ == "SparseTensor":
        raise ValueError(
            "the graph came as a sparse matrix (adj_t); RADE adds edges to a list of them: pass "
            "edge_index [2, E] instead, "
            "from torch_geometric.utils.to_edge_index(adj_t.t())[0] or by leaving out the ToSparseTensor transform"
        )


def _warn_of_loops(graph: Graph, model: Module) -> None:
    if any(conv.sees_self_loops for conv in model.modules() if isinstance(conv, CorrectedConv)):
        warnings.warn(
            f"edge_index holds {graph.self_loops} self-loops, which the model's own layers would use and RADE leaves "
            "out, in training and at inference; remove them first (torch_geometric.utils.remove_self_loops)",
            stacklevel=outside(),
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
        given = call.edge_index
        if isinstance(given, Graph):
            given = given.edge_index if given.self_loops else given.given
        swap = {key: given if value is adjacency else value for key, value in kwargs.items()}
        return tuple(given if value is adjacency else value for value in args), swap

    return hook
