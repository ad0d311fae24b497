"""The linear map from the last convolution to the logits."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import JumpingKnowledge

from rade.nn.base import linear_part
from rade.nn.trace import Trace


@torch.no_grad()
def head_matrix(model: Module, trace: Trace, classes: int, head: Module | None) -> Tensor | None:
    """The linear map [C, F] from the last convolution to the logits; None where its output is the logits.

    Given ``head``, its linear part; else the linear layers and batch norms that the last convolution reaches, if they
    form a chain that ends at the logits (activations between them are dropped, the paper's linear assumption).
    """
    if head is not None:
        matrix = linear_part(None, head)
        if matrix is None:
            raise ValueError(f"head must be or contain linear layers, got {type(head).__name__}")
        return _fitted(_narrowed(matrix, trace.width, concatenates=True), classes)
    if not trace.after:
        if trace.width != classes:
            raise ValueError(_ambiguous(f"no linear layer, but {trace.width} features and {classes} logits"))
        return None
    concatenates = any(isinstance(m, JumpingKnowledge) and m.mode == "cat" for m in model.modules())
    matrix = None
    for layer in reversed(trace.after):
        matrix = linear_part(_narrowed(matrix, _outputs(layer), concatenates), layer)
    return _fitted(_narrowed(matrix, trace.width, concatenates), classes)


def _outputs(layer: Module) -> int:
    """Number of features that a linear layer or batch norm gives: its bias may be missing, its weight not."""
    return layer.num_features if isinstance(layer, torch.nn.BatchNorm1d) else len(cast(Tensor, layer.weight))


def _narrowed(matrix: Tensor | None, width: int, concatenates: bool) -> Tensor | None:
    """The columns of ``matrix`` that take ``width`` features; concatenated layers stand in order, the last one last."""
    if matrix is None or matrix.shape[1] == width:
        return matrix
    if concatenates and matrix.shape[1] > width:
        return matrix[:, -width:]
    raise ValueError(_ambiguous(f"linear layers that take {matrix.shape[1]} features where they get {width}"))


def _fitted(matrix: Tensor | None, classes: int) -> Tensor | None:
    if matrix is not None and matrix.shape[0] != classes:
        raise ValueError(_ambiguous(f"linear layers that give {matrix.shape[0]} values for {classes} logits"))
    return matrix


def _ambiguous(found: str) -> str:
    return (
        f"cannot tell the linear head: after the last convolution the model calls {found}; say which layer maps the "
        "last convolution's (pooled) output to the logits, readout=rade.Readout(head=model.lin), or keep the "
        "rates constant, rule=rade.Constant()"
    )


def path_of(model: Module, head: Module | str | None) -> str | None:
    """Where the head is in the model: a path survives copies, a reference would not."""
    if head is None:
        return None
    if isinstance(head, str):
        model.get_submodule(head)
        return head
    for path, module in model.named_modules():
        if module is head:
            return str(path)
    raise ValueError(f"head must be a layer of the model itself, but this {type(head).__name__} is not part of it")
