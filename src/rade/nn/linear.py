"""Linear layers beside sums: on dense or sparse features, before or after the sum, and what they do to messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import linear as dense_linear
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized
from torch_geometric.nn import MLP
from torch_geometric.nn import Linear as PyGLinear

from rade.graph.sparse import Pattern, is_sparse, product
from rade.runtime import Recall

PLAIN = (torch.nn.Linear.forward, PyGLinear.forward)
LOOK = 3  # the call at which dense features are looked at: those of a single step come once or twice
MANY = 2**18  # fewer numbers are multiplied as they are
MOSTLY_ZERO = 0.1  # share of other numbers up to which sparse products were faster

_patterns: Recall[Pattern] = Recall()


def is_plain(layer: Any) -> bool:
    """Whether a layer is x Wᵀ + b with its own W and b, and nothing else happens when it is called.

    Subclasses with a forward of their own (adapters), parametrized weights and hooks (pruning, spectral norms) are not,
    nor are lazy layers before they have met features.
    """
    own = getattr(type(layer), "forward", None) in PLAIN and "forward" not in vars(layer)
    return own and not is_parametrized(layer) and not has_hooks(layer)


def has_hooks(layer: Any) -> bool:
    """Whether something else happens when a module is called."""
    backward = layer._backward_hooks or layer._backward_pre_hooks
    return bool(layer._forward_hooks or layer._forward_pre_hooks or backward)


def _materialise(layer: Any, x: Tensor) -> None:
    """Let a lazy layer that has not met features yet learn its width: any tell."""
    weight = None if is_parametrized(layer) else getattr(layer, "weight", None)
    if weight is not None and is_lazy(weight):
        layer(torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device))


def linear(layer: Any, x: Tensor, bias: bool = True) -> Tensor:
    """What ``layer`` computes, for dense or CSR features; of one that `is_plain` optionally without its bias."""
    if x.layout is torch.strided and bias:
        return cast(Tensor, layer(x))
    _materialise(layer, x)
    if is_plain(layer):
        if is_sparse(x):
            out = product(x.values(), layer.weight.t().contiguous(), feature_pattern(x))
            return out + layer.bias if bias and layer.bias is not None else out
        if layer.bias is not None:
            return dense_linear(x, layer.weight)
    assert bias or getattr(layer, "bias", None) is None, "only a plain layer can be applied without its bias"
    return cast(Tensor, layer(dense(x)))


def linear_of_sums(layer: Any, x: Tensor, sums: Callable[[Tensor, bool], Tensor], sums_first: bool) -> Tensor:
    """What ``layer`` makes of linear ``sums`` of x: a plain one may come before them, unless ``sums_first``.

    sums: of features, and whether the layer still follows.
    """
    _materialise(layer, x)
    if not is_plain(layer):
        return linear(layer, sums(dense(x), True))
    out = linear(layer, sums(x, True), bias=False) if sums_first else sums(linear(layer, x, bias=False), False)
    return out if layer.bias is None else out + layer.bias


class _Seen:
    """How often dense features came, and what they are as CSR where that serves better."""

    def __init__(self) -> None:
        self.calls = 0
        self.sparse: Tensor | None = None

    def form(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == LOOK and int(torch.count_nonzero(x)) < MOSTLY_ZERO * x.numel():
            self.sparse = x.to_sparse_csr()
        return x if self.sparse is None else self.sparse


_seen: Recall[_Seen] = Recall()


def as_sparse(x: Tensor) -> Tensor:
    """Features [n, F] as CSR where most are zero and the same memory came before: a bag of words that was given dense.

    Features that are made anew for every call, as by dropout, and those that want gradients stay as they are.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return x
    if x.numel() < MANY or x.requires_grad or x.dim() != 2 or type(x) is not Tensor or x.layout != torch.strided:
        return x
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return x
    return _seen.get((x,), None, _Seen).form(x)


def dense(x: Tensor) -> Tensor:
    """The features as a dense matrix."""
    return x.to_dense() if is_sparse(x) else x


def feature_pattern(x: Tensor) -> Pattern:
    """The pattern of a CSR matrix with its transpose, found once for each structure in memory."""
    rowptr, source = x.crow_indices(), x.col_indices()
    # Clones: what is recalled must not keep the memory that it is recalled by.
    return _patterns.get(
        (rowptr, source), x.shape[1], lambda: Pattern.general(rowptr.long().clone(), source.long().clone(), x.shape[1])
    )


def weight_of(layer: Any) -> Tensor:
    """W [C, F] of a linear layer; of one that is not plain, what it makes of unit vectors."""
    if is_plain(layer):
        return cast(Tensor, layer.weight)
    width = getattr(layer, "in_features", getattr(layer, "in_channels", None))
    if width is None:
        raise ValueError(
            f"cannot push messages through {type(layer).__name__}, which has no in_features: rates that adapt need a "
            "linear map; rule=rade.Constant() keeps them"
        )
    like = next(chain(layer.parameters(), layer.buffers()), torch.empty(0))
    unit = torch.eye(width, dtype=like.dtype, device=like.device)
    return cast(Tensor, layer(unit) - layer(torch.zeros_like(unit[:1]))).t()


def pushed(head: Tensor | None, weight: Tensor) -> Tensor:
    """head · weight, with None for the identity."""
    return weight if head is None else head @ weight


def linear_part(head: Tensor | None, module: Module) -> Tensor | None:
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


def _norm_scale(module: Module) -> Tensor | None:
    """γ/√(running variance + ε) of a batch norm, which is what it does to a deviation at inference."""
    inner = module.module if type(module).__name__ == "BatchNorm" else module
    if not isinstance(inner, torch.nn.BatchNorm1d) or inner.running_var is None:
        return None
    scale = (inner.running_var + inner.eps).rsqrt()
    return scale * inner.weight if inner.affine else scale
