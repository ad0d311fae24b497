"""Stand-ins, in plain torch, for two kernels of pyg-lib that PyG's layers are built with: k nearest neighbors, splines.

They make `DynamicEdgeConv`, `GravNetConv` and `SplineConv` of `layer_list.py` run where pyg-lib is not installed; where
it is, its own are used.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
import torch_geometric.typing
from torch import Tensor
from torch_geometric.nn.conv import spline_conv

_library: Any = None  # what is defined in it lasts as long as it does


def install() -> None:
    """Put them into the places of those that are missing."""
    global _library
    if not torch_geometric.typing.WITH_KNN and _library is None:
        _library = torch.library.Library("pyg", "FRAGMENT")
        _library.define(
            "knn(Tensor x, Tensor y, Tensor? ptr_x, Tensor? ptr_y, int k, bool cosine, int workers) -> Tensor"
        )
        _library.impl("knn", _nearest, "CompositeExplicitAutograd")
        torch_geometric.typing.WITH_KNN = True
    if spline_conv.spline_basis is None:
        spline_conv.spline_basis, spline_conv.spline_weighting = _basis, _weighting


def _nearest(
    x: Tensor, y: Tensor, ptr_x: Tensor | None, ptr_y: Tensor | None, k: int, cosine: bool, workers: int
) -> Tensor:
    """For each row of y the k nearest rows of x, [2, k · rows]: rows of y first."""
    nearest = torch.cdist(y, x).topk(k, largest=False).indices
    return torch.stack([torch.arange(len(y)).repeat_interleave(k), nearest.flatten()])


def _basis(at: Tensor, sizes: Tensor, is_open: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Weights and indices [E, 2^D] of the knots around each place in [0, 1]^D: open splines of degree 1."""
    place = at.clamp(0.0, 1.0) * (sizes - 1)
    low = place.floor().clamp(max=sizes - 2)
    share, stride = place - low, torch.cat([sizes.new_ones(1), sizes.cumprod(0)[:-1]])
    weights, indices = [], []
    for corner in product((0, 1), repeat=at.shape[1]):
        upper = torch.tensor(corner, dtype=torch.bool)
        weights.append(torch.where(upper, share, 1.0 - share).prod(1))
        indices.append(((low.long() + upper.long()) * stride).sum(1))
    return torch.stack(weights, 1), torch.stack(indices, 1)


def _weighting(x: Tensor, weight: Tensor, basis: Tensor, index: Tensor) -> Tensor:
    """Σ_k b_k x W_k."""
    return torch.einsum("ei,ek,ekio->eo", x, basis, weight[index])
