"""Effective resistance between nodes, by conjugate gradients on many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rade.diagnose.network import Network

TOLERANCE = 1e-8  # of the residual, relative to the right-hand side
LIMIT = 5000  # iterations


def effective_resistance(network: Network, source: Tensor, target: Tensor) -> Tensor:
    """R_ij = (e_i − e_j)ᵀ L⁺ (e_i − e_j) for pairs of connected nodes, [k]; ∞ where no current flows.

    The commute time of a walk along the weights is R_ij times the volume of the graph.
    """
    columns = torch.arange(source.numel())
    right = torch.zeros(network.graph.num_nodes, source.numel(), dtype=network.degree.dtype)
    right[source, columns] += 1.0
    right[target, columns] -= 1.0
    potential, solved = conjugate_gradients(network.laplacian, right, network.degree)
    found = potential[source, columns] - potential[target, columns]
    return torch.where(solved, found, torch.inf)


def conjugate_gradients(apply: Callable[[Tensor], Tensor], right: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor]:
    """x with A x = right for each column of [n, k], and which columns were solved; A positive, perhaps singular.

    Preconditioned by the diagonal. Columns share their products with A and nothing else; one without a solution, whose
    residual stays in the null space, is not solved.
    """
    scale = torch.where(diagonal > 0, diagonal, 1.0)[:, None]
    x, residual = torch.zeros_like(right), right.clone()
    goal = TOLERANCE * right.norm(dim=0)
    step = residual / scale
    energy = (residual * step).sum(0)
    for _ in range(LIMIT):
        unsolved = residual.norm(dim=0) > goal  # others rest: in a singular system they would drift on rounding errors
        if not bool(unsolved.any()):
            break
        product = apply(step)
        curvature = (step * product).sum(0)
        moving = unsolved & (curvature > 0)
        length = torch.where(moving, energy / torch.where(moving, curvature, 1.0), 0.0)
        x, residual = x + length * step, residual - length * product
        scaled = residual / scale
        following = (residual * scaled).sum(0)
        step = scaled + torch.where(moving, following / torch.where(moving, energy, 1.0), 0.0) * step
        energy = following
    return x, residual.norm(dim=0) <= goal
