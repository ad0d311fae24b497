"""Turning a PyG model's convolutions into ones on views, and back; parameters, hooks and names stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch.nn import Module

from rade import nn
from rade.distribution import Reverse
from rade.graph.graph import Graph
from rade.moments.base import Coefficients
from rade.nn.base import CorrectedConv, convolutions
from rade.nn.context import Context
from rade.nn.convs import SUMS
from rade.nn.relations import name_relations

# PyG's layers that have moments, and what stands for them on views: the layers of `rade.nn`.
TWINS: dict[type[Module], type[CorrectedConv]] = {
    twin._plain: twin
    for twin in vars(nn).values()
    if isinstance(twin, type) and issubclass(twin, CorrectedConv) and twin is not CorrectedConv
}

# Every edge of a mesh has four neighbors, in order: a view has no meaning. Not every PyG has such a layer.
FIXED = (pyg.MeshCNNConv,) if hasattr(pyg, "MeshCNNConv") else ()


def convert(model: Module) -> Module:
    """Make the convolutions of ``model`` ready for views; returns the same model, converted in place.

    Only the layers' class changes, so parameters, optimizers, hooks and ``state_dict`` keys are untouched, and the
    model computes what it did before. A layer with moments takes a `rade.Graph` as ``edge_index`` as well.
    """
    if not any(isinstance(module, pyg.MessagePassing) for module in model.modules()):
        raise ValueError(f"expected a model built from graph convolutions, but {type(model).__name__} has none")
    _become_twins(model)
    if not convolutions(model):
        raise ValueError("the layers of the model need each of their edges (meshes): there are no views of those")
    return model


def _become_twins(model: Module) -> None:
    for module in model.modules():
        if isinstance(module, pyg.MessagePassing) and not isinstance(module, (CorrectedConv, *FIXED)):
            _forget_propagate(module)
            module.__class__ = cast(type[pyg.MessagePassing], twin_of(type(module)))


@singledispatch
def revert(model: Module) -> Module:
    """Give the plain PyG model back: the inverse of `convert`, in place; a `rade.RADE` returns what it wraps."""
    _restore(model.modules())
    return model


def register(layer: type[Module], by: type[CorrectedConv] | Callable[[Graph, torch.dtype], Coefficients]) -> None:
    """Let `convert` and `RADE` sum by moments in a convolution of your own.

    ``by`` makes its coefficients, ``by(graph, x.dtype)``: their class, or a function, if they depend on the graph alone
    and the layer's forward only hands ``edge_index`` on to `propagate`. Else it is a twin of the layer, which derives
    from `rade.nn.CorrectedConv` and from ``layer``: with `coefficients`, which PyG's own forward is then summed with,
    or its own forward on views, `on`; and `after_sum` where a linear map follows the sum.
    """
    if not (isinstance(by, type) and issubclass(by, Module)):
        make, is_mean = _checked(layer, by)
        made = {"coefficients": lambda self, graph, x, **_: make(graph, x.dtype)}
        TWINS[layer] = _twin(layer, **made, **({"aggregations": SUMS} if is_mean else {}))
    elif not (issubclass(by, CorrectedConv) and issubclass(by, layer)):
        raise TypeError(
            f"a twin of {layer.__name__} derives from rade.nn.CorrectedConv and from {layer.__name__}, in this order; "
            f"got {by!r}"
        )
    elif by.coefficients is CorrectedConv.coefficients and by.on is CorrectedConv.on:
        raise TypeError(f"{by.__name__} needs a method coefficients of its own; docs/theory.md shows one")
    else:
        TWINS[layer] = by


def _checked(layer: type[Module], by: Any) -> tuple[Callable[[Graph, torch.dtype], Coefficients], bool]:
    """What makes coefficients of a graph and a dtype, tried on a path of three nodes, and whether they are of means."""
    path = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    try:
        found = by(path, torch.float)
    except TypeError as error:
        found = error
    if not isinstance(found, Coefficients):
        raise TypeError(
            f"{layer.__name__} is registered with what makes its coefficients of a graph and a dtype, a class that "
            f"derives from rade.moments.Coefficients or a function, or with a twin of the layer; got {by!r}: {found}"
        )
    weights = found.realised(found.clean())
    sums = path.pattern.row_sum(weights.edges) + weights.loop
    return by, sums.shape == (3,) and torch.allclose(sums, torch.ones(3))


def twin_of(layer: type[Module]) -> type[CorrectedConv]:
    """The class of a layer on views; without moments of its own, one that is corrected by pairs of views."""
    if layer not in TWINS and layer not in _PAIRED:
        _PAIRED[layer] = _twin(layer, moments=False)
    return TWINS[layer] if layer in TWINS else _PAIRED[layer]


_PAIRED: dict[type[Module], type[CorrectedConv]] = {}


def _twin(layer: type[Module], **own: object) -> type[CorrectedConv]:
    return type(
        layer.__name__, (CorrectedConv, layer), {"__reduce_ex__": _reduced, "__module__": layer.__module__, **own}
    )


def _reduced(module: Any, protocol: object) -> tuple[object, ...]:
    """Classes that are made here cannot be found by name: pickles and copies tell the layer that they were made of."""
    return _made, (module._plain,), module.__dict__


def _made(layer: type[Module]) -> CorrectedConv:
    kind = twin_of(layer)
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
        if conv._context not in (None, context):
            conv._context.lost.add(type(conv).__name__)
        conv._context = context


def attach_new(model: Module, context: Context) -> None:
    """The same for layers that were put into a wrapped model since, which the others' views would go past."""
    layers = [module for module in model.modules() if isinstance(module, pyg.MessagePassing)]
    if any(getattr(layer, "_context", None) is None and not isinstance(layer, FIXED) for layer in layers):
        _become_twins(model)
        attach(model, context)


def _restore(modules: Iterable[Module]) -> None:
    for module in modules:
        if isinstance(module, CorrectedConv):
            for name in ("_context", "_place", "_relation", "_reverses"):
                module.__dict__.pop(name, None)
            _forget_propagate(module)
            module.__class__ = module._plain


def _forget_propagate(module: Any) -> None:
    """Whoever explains a layer leaves its class's `propagate` in the layer itself, where it outlives the class."""
    own = {getattr(type(module), name, None) for name in ("_orig_propagate", "_jinja_propagate")}
    if getattr(module.__dict__.get("propagate"), "__func__", None) in own - {None}:
        del module.__dict__["propagate"]
