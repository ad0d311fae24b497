"""E[X^−s] of a positive random X: by its Laplace transform, or by an expansion around its mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/moments.md)
STEP = (TO - FROM) / (NODES - 1)


def points(scale: Tensor, to: float = TO) -> tuple[Tensor, Tensor]:
    """Where the rule looks: t = exp(v − exp(−v))/scale, [..., nodes], and dt/t at each, [nodes].

    The substitution makes the trapezoid rule converge doubly exponentially; ``scale`` is held fixed in derivatives.
    """
    count = math.ceil(round((to - FROM) / STEP, 6))
    v = torch.linspace(FROM, FROM + count * STEP, count + 1, dtype=torch.double, device=scale.device)
    return torch.exp(v - torch.exp(-v)) / scale.detach()[..., None], STEP * (1.0 + torch.exp(-v))


def quadrature(log_laplace: Callable[[Tensor], Tensor], mean: Tensor, powers: tuple[float, ...]) -> list[Tensor]:
    """E[X^−s] = 1/Γ(s) ∫₀^∞ t^(s−1) E[e^(−tX)] dt, by the trapezoid rule in v; one result like ``mean`` per power.

    ``log_laplace`` maps t [..., nodes] to log E[e^(−tX)]; E[X] only sets the scale.
    """
    t, steps = points(mean)
    weight = torch.exp(log_laplace(t)) * steps
    return [(weight * t.pow(s)).sum(-1) / math.gamma(s) for s in powers]


def expansion(mean: Tensor, variance: Tensor, power: float) -> Tensor:
    """E[X^−s] ≈ μ^−s + ½ s(s+1) σ² μ^(−s−2), the paper's second-order expansion (Lemmas C.1, C.2, E.1, E.2)."""
    inverse = mean.reciprocal()
    return inverse.pow(power) * (1.0 + 0.5 * power * (power + 1.0) * variance * inverse.square())
