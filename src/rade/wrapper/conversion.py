"""Turning a PyG model's convolutions into ones on views, and back; parameters, hooks and names stay where they are."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import singledispatch
from typing import Any, cast

import torch_geometric.nn as pyg
from torch.nn import Module

from rade import nn
from rade.distribution import Reverse
from rade.nn.base import CorrectedConv, convolutions
from rade.nn.context import Context
from rade.nn.relations import name_relations

TWINS: dict[type[Module], type[CorrectedConv]] = {
    pyg.GCNConv: nn.GCNConv,
    pyg.GINConv: nn.GINConv,
    pyg.GATConv: nn.GATConv,
    pyg.SAGEConv: nn.SAGEConv,
    pyg.GraphConv: nn.GraphConv,
    pyg.SGConv: nn.SGConv,
    pyg.APPNP: nn.APPNP,
    pyg.LGConv: nn.LGConv,
    pyg.TAGConv: nn.TAGConv,
    pyg.MixHopConv: nn.MixHopConv,
    pyg.SSGConv: nn.SSGConv,
    pyg.ChebConv: nn.ChebConv,
    pyg.GCN2Conv: nn.GCN2Conv,
    pyg.GatedGraphConv: nn.GatedGraphConv,
    pyg.ARMAConv: nn.ARMAConv,
    pyg.GINEConv: nn.GINEConv,
    pyg.GATv2Conv: nn.GATv2Conv,
    pyg.AGNNConv: nn.AGNNConv,
    pyg.TransformerConv: nn.TransformerConv,
    pyg.ClusterGCNConv: nn.ClusterGCNConv,
    pyg.SimpleConv: nn.SimpleConv,
}

EDGES = {"edge_index", "edge_index_dict", "pos_edge_index"}  # arguments that hold edges, of which views are drawn


def convert(model: Module) -> Module:
    """Make the convolutions of ``model`` ready for views; returns the same model, converted in place.

    Only the layers' class changes, so parameters, optimizers, hooks and ``state_dict`` keys are untouched, and the
    model computes what it did before. A layer with moments takes a `rade.Graph` as ``edge_index`` as well.
    """
    if not any(isinstance(module, pyg.MessagePassing) for module in model.modules()):
        raise ValueError(f"expected a model built from graph convolutions, but {type(model).__name__} has none")
    for module in model.modules():
        if isinstance(module, pyg.MessagePassing) and not isinstance(module, CorrectedConv) and takes_edges(module):
            _forget_propagate(module)
            module.__class__ = cast(type[pyg.MessagePassing], twin_of(type(module)))
    if not convolutions(model):
        raise ValueError("no layer of the model takes an edge_index: there is no graph to draw views of")
    return model


@singledispatch
def revert(model: Module) -> Module:
    """Give the plain PyG model back: the inverse of `convert`, in place; a `rade.RADE` returns what it wraps."""
    _restore(model.modules())
    return model


def register(layer: type[Module], twin: type[Module]) -> None:
    """Let `convert` and `RADE` sum by moments in a convolution of your own, as its ``twin`` says.

    ``twin`` derives from `rade.nn.CorrectedConv` and from ``layer``, and has `coefficients`, which PyG's own forward is
    then summed with, or its own forward on views, `on`; and `after_sum` where a linear map follows the sum.
    """
    if not (isinstance(twin, type) and issubclass(twin, CorrectedConv) and issubclass(twin, layer)):
        raise TypeError(
            f"the twin of {layer.__name__} must derive from rade.nn.CorrectedConv and from {layer.__name__} itself, in "
            "this order"
        )
    if twin.coefficients is CorrectedConv.coefficients and twin.on is CorrectedConv.on:
        raise TypeError(f"{twin.__name__} needs a method coefficients of its own; docs/theory.md shows one")
    TWINS[layer] = twin


def takes_edges(module: Module) -> bool:
    """Whether a layer takes an edge_index, or several: some build a graph of their own."""
    return not EDGES.isdisjoint(inspect.signature(type(module).forward).parameters)


def twin_of(layer: type[Module]) -> type[CorrectedConv]:
    """The class of a layer on views; without moments of its own, one that is corrected by pairs of views."""
    return TWINS[layer] if layer in TWINS else _by_pairs(layer)


_PAIRED: dict[type[Module], type[CorrectedConv]] = {}


def _by_pairs(layer: type[Module]) -> type[CorrectedConv]:
    if layer not in _PAIRED:
        own = {"moments": False, "__reduce_ex__": _reduced, "__module__": layer.__module__}
        _PAIRED[layer] = type(layer.__name__, (CorrectedConv, layer), own)
    return _PAIRED[layer]


def _reduced(module: Any, protocol: object) -> tuple[Any, ...]:
    """Classes that are made here cannot be found by name: pickles and copies tell the layer that they were made of."""
    return _made, (module._plain,), module.__dict__


def _made(layer: type[Module]) -> CorrectedConv:
    kind = _by_pairs(layer)
    return kind.__new__(kind)


def attach(model: Module, context: Context | None) -> None:
    """Tell all layers of a model where their views come from, and which of their relations are each other's reverse."""
    convs = convolutions(model)
    if context is not None:
        try:
            name_relations(convs, cast(Reverse, context.setting.views.reverse))
        except ValueError:
            _restore(model.modules())  # the model stays as it was
            raise
    for conv in convs.values():
        conv._context = context


def _restore(modules: Iterable[Module]) -> None:
    for module in modules:
        if isinstance(module, CorrectedConv):
            for name in ("_context", "_place", "_reverses"):
                module.__dict__.pop(name, None)
            _forget_propagate(module)
            module.__class__ = module._plain


def _forget_propagate(module: Any) -> None:
    """Whoever explains a layer leaves its class's `propagate` in the layer itself, where it outlives the class."""
    own = {getattr(type(module), name, None) for name in ("_orig_propagate", "_jinja_propagate")}
    if getattr(module.__dict__.get("propagate"), "__func__", None) in own - {None}:
        del module.__dict__["propagate"]
