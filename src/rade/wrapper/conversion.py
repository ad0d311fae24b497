"""Turning a PyG model's convolutions into corrected ones, and back; parameters, hooks and names stay where they are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import cast

import torch_geometric.nn as pyg
from torch.nn import Module

from rade import nn
from rade.nn.base import CorrectedConv, convolutions

TWINS: dict[type[Module], type[Module]] = {
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
PLAIN = {twin: layer for layer, twin in TWINS.items()}
SUPPORTED = ", ".join(sorted(layer.__name__ for layer in TWINS))


def convert(model: Module, strict: bool = True) -> Module:
    """Make every supported convolution of ``model`` accept views; returns the same model, converted in place.

    Only the layers' class changes, so parameters, optimizers, hooks and ``state_dict`` keys are untouched, and given a
    plain ``edge_index`` the model computes what it did before. Unsupported message-passing layers are an error;
    with ``strict=False`` they stay as they are, on the clean graph.
    """
    if not any(isinstance(module, pyg.MessagePassing) for module in model.modules()):
        raise ValueError(
            f"expected a model built from graph convolutions, but {type(model).__name__} has none; supported layers: "
            f"{SUPPORTED}"
        )
    plain = {path: module for path, module in model.named_modules() if type(module) in TWINS}
    if not strict:
        plain = {path: module for path, module in plain.items() if refused_option(module) is None}
    others = {id(module) for module in unsupported(model)}  # metrics of torchmetrics overload ==
    for path, module in model.named_modules():
        if type(module).__name__ == "HeteroConv":
            raise ValueError(
                f"HeteroConv at {path or 'the top'!r} has several relations, and views are of one: each would need a "
                "density, rates and views of its own, between two kinds of nodes; "
                "make the graph homogeneous (HeteroData.to_homogeneous()), or wrap a part that sees one relation"
            )
        if strict and path not in plain and id(module) in others:
            raise ValueError(
                f"{type(module).__name__} at {path or 'the top'!r} is not supported on random views: "
                f"{reason_against(module)} (supported: {SUPPORTED}); replace it, or pass "
                "strict=False to leave it on the "
                "clean graph"
            )
    if not plain and not convolutions(model):
        raise ValueError(f"none of the model's layers is supported on random views; supported layers: {SUPPORTED}")
    try:
        for path, module in plain.items():
            _become(module, path)
    except ValueError:
        _restore(plain.values())  # a refused model stays as it was
        raise
    return model


@singledispatch
def revert(model: Module) -> Module:
    """Give the plain PyG model back: the inverse of `convert`, in place; a `rade.RADE` returns what it wraps."""
    _restore(model.modules())
    return model


def unsupported(model: Module) -> list[Module]:
    """The layers that pass messages but cannot take a view."""
    kind = pyg.MessagePassing
    return [module for module in model.modules() if isinstance(module, kind) and not isinstance(module, CorrectedConv)]


def reason_against(module: Module) -> str:
    """Why a message-passing layer cannot take a view."""
    if isinstance(module, pyg.FiLMConv) and module.num_relations == 1:
        return "a message of it is a nonlinear function of both ends, which has no moments here"
    kinds = (kind for kind in type(module).__mro__ if kind.__name__ in _REASONS)
    known = next((_REASONS[kind.__name__] for kind in kinds), None)
    if known is not None:
        return known
    if any(isinstance(module, kind) for kind in TWINS):
        return "a subclass of a supported layer may compute something else; rade.register says that it does not"
    aggregation = module.__dict__.get("aggr")
    if aggregation is not None and aggregation not in ("add", "sum", "mean"):
        return f"{aggregation!r} is no weighted sum, so there is no expectation to preserve"
    return "its coefficients have no moments here; rade.register takes a layer of your own that has them"


_SCORES = "its coefficients are functions of pairs without moments here (rade.nn.GATv2Conv shows how to write some)"
_ATTRIBUTES = "its messages use edge attributes, which added edges do not have"
_NO_SUM = "it is no weighted sum of messages, so there is no expectation to preserve"
_RELATIONS = "it has several relations, and views are of one: each would need a density, rates and views of its own"
_REASONS = {
    **dict.fromkeys(("SuperGATConv", "FAConv", "FeaStConv"), _SCORES),
    **dict.fromkeys(("NNConv", "CGConv", "GMMConv", "SplineConv", "ResGatedGraphConv"), _ATTRIBUTES),
    **dict.fromkeys(("PNAConv", "EdgeConv", "DynamicEdgeConv", "GENConv", "MFConv", "PointNetConv"), _NO_SUM),
    **dict.fromkeys(("RGCNConv", "FastRGCNConv", "RGATConv", "HGTConv", "HANConv", "FiLMConv"), _RELATIONS),
}


def register(layer: type[Module], twin: type[Module]) -> None:
    """Let `convert` and `RADE` turn a convolution of your own into its corrected ``twin``.

    ``twin`` derives from `rade.nn.CorrectedConv` and from ``layer``, and has the two methods `forward` (which sends by
    ``self.send(edge_index, coefficients, messages)`` where ``edge_index`` is a `rade.Adjacency`) and `sent`.
    """
    if not (isinstance(twin, type) and issubclass(twin, CorrectedConv) and issubclass(twin, layer)):
        raise TypeError(
            f"the twin of {layer.__name__} must derive from rade.nn.CorrectedConv and from {layer.__name__} itself, in "
            "this order"
        )
    missing = [name for name, above in (("forward", layer), ("sent", CorrectedConv)) if _is_of(twin, name, above)]
    if missing:
        raise TypeError(f"{twin.__name__} needs a {missing[0]} of its own; docs/tutorial-aggregator.md shows one")
    TWINS[layer], PLAIN[twin] = twin, layer


def _is_of(twin: type[Module], name: str, above: type) -> bool:
    """Whether a twin has a method only from there."""
    return bool(getattr(twin, name) is getattr(above, name))


def refused_option(module: Module) -> str | None:
    """Why a layer of a supported kind cannot take a view as it was built, None where it can; it stays as it is."""
    plain = type(module)
    module.__class__ = TWINS[plain]
    try:
        cast(CorrectedConv, module).check_options()
    except ValueError as error:
        return str(error)
    finally:
        module.__class__ = plain
    return None


def _become(module: Module, path: str) -> None:
    refusal = refused_option(module)
    if refusal is not None:
        raise ValueError(f"layer {path or 'at the top'!r}: {refusal}")
    module.__class__ = TWINS[type(module)]


def _restore(modules: Iterable[Module]) -> None:
    for module in modules:
        module.__class__ = PLAIN.get(type(module), type(module))
