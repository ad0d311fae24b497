"""‖∇θL‖ of the data: from the gradients that a training step left, or on the input graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from rade.control.labelled import Labelled
from rade.distributed import average


class NoGradient(RuntimeError):
    """There is no gradient that a rate step could look at."""


def gradient_norm(parameters: Sequence[Parameter]) -> Tensor:
    """‖∇θL‖ of the gradients that ``loss.backward()`` left."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise NoGradient(
            "adapt() needs the gradients of the training step: call it after loss.backward() and before zero_grad()"
        )
    norm: Tensor = torch.stack([gradient.detach().double().norm() for gradient in gradients]).norm()
    if bool(norm == 0):
        warnings.warn(
            "all gradients that adapt() found are zero: it must be called after loss.backward() and before "
            "zero_grad(), or the rates drift",
            stacklevel=2,
        )
    return norm


def clean_gradient_norm(logits: Tensor, labelled: Labelled, parameters: Sequence[Parameter]) -> Tensor:
    """‖∇θL‖ on the input graph, the authors' choice, for comparison."""
    if labelled.loss is None:
        raise ValueError(
            "data_gradient='clean' needs the loss on the input graph: "
            "adapt(..., labelled=rade.Labelled(rows, loss=lambda logits: ...))"
        )
    loss = labelled.weight * labelled.loss(logits)
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    norm: Tensor = average(torch.cat([g.flatten().double() for g in gradients if g is not None])).norm()
    return norm
