"""Whether a linear layer is what its weight says, or must be called: people put hooks and adapters into layers."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized
from torch_geometric.nn import Linear as PyGLinear

LOOKS_ON = "looks_on"  # an attribute of hooks that change nothing


def is_plain(layer: Any) -> bool:
    """Whether a layer is x Wᵀ + b with its own W and b, and nothing else happens when it is called.

    Subclasses with a forward of their own (adapters), parametrized weights and hooks (pruning, spectral norms) are not,
    nor are lazy layers before they settle.
    """
    own = getattr(type(layer), "forward", None) in (torch.nn.Linear.forward, PyGLinear.forward)
    return own and "forward" not in vars(layer) and not is_parametrized(layer) and not has_hooks(layer)


def has_hooks(layer: Any) -> bool:
    """Whether something else happens when a module is called; a `Trace` only looks on."""
    kinds = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(not hasattr(hook, LOOKS_ON) for hooks in kinds for hook in hooks.values())


def settle(layer: Any, x: Tensor) -> None:
    """Let a lazy layer that has not met features yet learn its width: any tell."""
    weight = None if is_parametrized(layer) else getattr(layer, "weight", None)
    if weight is not None and is_lazy(weight):
        layer(torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device))


def weight_of(layer: Any) -> Tensor:
    """W [C, F] of a linear layer; of one that is not plain, what it makes of unit vectors."""
    if is_plain(layer):
        weight: Tensor = layer.weight
        return weight
    width = getattr(layer, "in_features", getattr(layer, "in_channels", None))
    if width is None:
        raise ValueError(
            f"cannot push messages through {type(layer).__name__}, which tells no in_features: rates that adapt need a "
            "linear map; rule=rade.Constant() keeps them"
        )
    like = next(chain(layer.parameters(), layer.buffers()), torch.empty(0))
    unit = torch.eye(width, dtype=like.dtype, device=like.device)
    found: Tensor = (layer(unit) - layer(torch.zeros_like(unit[:1]))).t()
    return found
