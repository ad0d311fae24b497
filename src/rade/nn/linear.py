"""Linear layers on dense or sparse (CSR) node features: bag-of-words inputs stay sparse through the first product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear as dense_linear

from rade.graph.sparse import Pattern, is_sparse, product
from rade.memory import Recall
from rade.nn.plain import is_plain, settle

LOOK = 3  # the call at which dense features are looked at: those of a single step come once or twice
MANY = 2**18  # fewer numbers are multiplied as they are
MOSTLY_ZERO = 0.1  # share of other numbers up to which sparse products were faster

_patterns: Recall[Pattern] = Recall()


def linear(layer: Any, x: Tensor, bias: bool = True) -> Tensor:
    """What ``layer`` computes, for dense or CSR features; of one that `is_plain` optionally without its bias."""
    settle(layer, x)
    if is_plain(layer):
        if is_sparse(x):
            return matmul(x, layer.weight, layer.bias if bias else None)
        if not bias and layer.bias is not None:
            return dense_linear(x, layer.weight)
    assert bias or getattr(layer, "bias", None) is None, "only a plain layer can be applied without its bias"
    out: Tensor = layer(dense(x))
    return out


def linear_of_sums(layer: Any, x: Tensor, sums: Callable[[Tensor], Tensor], sums_first: bool) -> Tensor:
    """What ``layer`` makes of linear ``sums`` of x: a plain one may come before them, unless ``sums_first``."""
    settle(layer, x)
    if not is_plain(layer):
        return linear(layer, sums(dense(x)))
    out = linear(layer, sums(x), bias=False) if sums_first else sums(linear(layer, x, bias=False))
    return out if layer.bias is None else out + layer.bias


def matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, for dense or CSR x [n, F] and W [C, F]."""
    if not is_sparse(x):
        return dense_linear(x, weight, bias)
    out = product(x.values(), weight.t().contiguous(), feature_pattern(x))
    return out if bias is None else out + bias


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


def lean(x: Tensor) -> Tensor:
    """Features [n, F] as CSR where most are zero and the same memory came before: a bag of words that was given dense.

    Features that are made anew for every call, as by dropout, and those that want gradients stay as they are.
    """
    if x.numel() < MANY or x.requires_grad or x.dim() != 2 or type(x) is not Tensor or x.layout != torch.strided:
        return x
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64) or torch.compiler.is_compiling():
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
