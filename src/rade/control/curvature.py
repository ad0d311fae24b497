"""The diagonal of a loss's second derivative in its logits: in closed form, or by differentiating any loss twice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Curvature = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]  # from logits [k, C] and row ids [k] to the sum of the rows' losses


def of_softmax(logits: Tensor) -> Tensor:
    """prob(1−prob) of a softmax."""
    probability = logits.softmax(-1)
    return probability * (1.0 - probability)


def of_sigmoid(logits: Tensor) -> Tensor:
    """prob(1−prob) of a sigmoid."""
    probability = logits.sigmoid()
    return probability * (1.0 - probability)


def of_square(logits: Tensor) -> Tensor:
    """1: half the squared error."""
    return torch.ones_like(logits)


def of_loss(loss: Loss, logits: Tensor, rows: Tensor) -> Tensor:
    """∂²loss/∂logit² by automatic differentiation, one pass for each column, [k, C]; rows must not share terms.

    A loss that shares terms between rows (ranking, pairs) contributes the diagonal of its second derivative only.
    """
    with torch.enable_grad():
        x = logits if logits.requires_grad else logits.detach().requires_grad_()
        total = loss(x, rows)
        if total.dim() != 0:
            raise ValueError(
                f"Readout(loss=...) must return the sum of the rows' losses, a number, got shape {list(total.shape)}; "
                "with reduction='sum'"
            )
        (slope,) = torch.autograd.grad(total, x, create_graph=True)
        if not slope.requires_grad:
            return torch.zeros_like(logits)  # piecewise linear
        columns = [torch.autograd.grad(slope[:, c].sum(), x, create_graph=True)[0][:, c] for c in range(x.shape[1])]
        return torch.stack(columns, 1)
