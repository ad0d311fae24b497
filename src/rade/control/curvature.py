"""The diagonal of a loss's second derivative in its logits: in closed form, or by differentiating any loss twice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Curvature = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]  # from logits [k, C] and row ids [k] to the sum of the rows' losses


def of_softmax(logits: Tensor) -> Tensor:
    """prob(1−prob) of a softmax."""
    probability = logits.t().softmax(0).t()  # down columns of many numbers: ten times as fast as along rows of a few
    return probability * (1.0 - probability)


def of_sigmoid(logits: Tensor) -> Tensor:
    """prob(1−prob) of a sigmoid."""
    probability = logits.sigmoid()
    return probability * (1.0 - probability)


def of_square(logits: Tensor) -> Tensor:
    """1: half the squared error."""
    return torch.ones_like(logits)


def of_loss(loss: Loss, logits: Tensor, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """∂²loss/∂logit² by automatic differentiation, one pass for each column, [k, C].

    With random signs v, v ∘ Hv is the diagonal of H where rows do not share terms, and has it as its mean where they
    do (ranking, pairs): E[v_i Σ_j H_ij v_j] = H_ii. The signs come from a copy of the generator, so that views go on as
    if nothing had been drawn.
    """
    with torch.enable_grad():
        x = logits if logits.requires_grad else logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(_total(loss, x, rows), x, create_graph=True, materialize_grads=True)
        if not slope.requires_grad:
            return torch.zeros_like(logits)  # piecewise linear
        signs = _signs(x.shape[0], generator, x)
        columns = [_second(slope[:, c], signs, x)[:, c] for c in range(x.shape[1])]
        return torch.stack(columns, 1)


def _second(slope: Tensor, signs: Tensor, x: Tensor) -> Tensor:
    """v ∘ ∂⟨v, slope⟩/∂x, [k, C]."""
    (found,) = torch.autograd.grad(slope @ signs, x, create_graph=True, materialize_grads=True)
    return signs[:, None] * found


def _signs(count: int, generator: torch.Generator | None, like: Tensor) -> Tensor:
    source = torch.default_generator if generator is None else generator
    copy = torch.Generator(source.device)
    copy.set_state(source.get_state())
    return 2 * torch.randint(2, (count,), generator=copy, device=source.device).to(like) - 1


def _total(loss: Loss, x: Tensor, rows: Tensor) -> Tensor:
    try:
        total = loss(x, rows)
    except (RuntimeError, IndexError, ValueError) as error:
        raise ValueError(
            f"Readout(loss=...) is called with the logits {list(x.shape)} of some rows and the ids of these rows "
            f"[{len(rows)}], not with all, and failed: {' '.join(str(error).split())}"
        ) from None
    if total.dim() != 0:
        raise ValueError(
            f"Readout(loss=...) must return the sum of the rows' losses, a number, got shape {list(total.shape)}; "
            "with reduction='sum'"
        )
    return total
