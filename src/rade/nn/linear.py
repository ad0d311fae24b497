"""Linear layers on dense or sparse (CSR) node features: bag-of-words inputs stay sparse through the first product."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear as dense_linear
from torch.nn.parameter import is_lazy

from rade.graph.sparse import Pattern, product

_KEPT = 16
_patterns: OrderedDict[tuple[int, int, int, int], tuple[Tensor, Tensor, Pattern]] = OrderedDict()


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
    """The pattern of a CSR matrix with its transpose, found once for each structure.

    Keyed by the index memory; entries hold on to it, so that an address cannot mean another matrix. The last few are
    kept: features of a data set are one or two matrices, and mini-batches come and go.
    """
    rowptr, source = x.crow_indices(), x.col_indices()
    key = (rowptr.data_ptr(), source.data_ptr(), source.numel(), x.shape[1])
    if key in _patterns:
        _patterns.move_to_end(key)
        return _patterns[key][2]
    with torch.inference_mode(False):  # what is kept must serve training, too
        pattern = Pattern.general(rowptr.long(), source.long(), x.shape[1])
    _patterns[key] = (rowptr, source, pattern)
    while len(_patterns) > _KEPT:
        _patterns.popitem(last=False)
    return pattern
