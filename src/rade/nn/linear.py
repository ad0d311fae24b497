"""Linear layers on dense or sparse (CSR) node features: bag-of-words inputs stay sparse through the first product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear as dense_linear
from torch.nn.parameter import is_lazy

from rade.graph.sparse import Pattern, product
from rade.memory import Recall

_patterns: Recall[Pattern] = Recall()


def is_sparse(x: Tensor) -> bool:
    """Whether features are a CSR matrix."""
    return x.layout == torch.sparse_csr


def linear(layer: Any, x: Tensor, bias: bool = True) -> Tensor:
    """What ``layer`` (a torch or PyG Linear) computes, for dense or CSR features; optionally without its bias."""
    if is_lazy(layer.weight):
        layer(torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device))  # learns its width from any input
    if is_sparse(x):
        return matmul(x, layer.weight, layer.bias if bias else None)
    if bias or layer.bias is None:
        out: Tensor = layer(x)  # through the module, so that lazy layers and hooks work
        return out
    return dense_linear(x, layer.weight)


def matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, for dense or CSR x [n, F] and W [C, F]."""
    if not is_sparse(x):
        return dense_linear(x, weight, bias)
    out = product(x.values(), weight.t().contiguous(), feature_pattern(x))
    return out if bias is None else out + bias


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
