"""E[X^−s] of a positive random X: by its Laplace transform, or by an expansion around its mean."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/moments.md)


def quadrature(log_laplace: Callable[[Tensor], Tensor], mean: Tensor, powers: tuple[float, ...]) -> list[Tensor]:
    """E[X^−s] = 1/Γ(s) ∫₀^∞ t^(s−1) E[e^(−tX)] dt, by the trapezoid rule in v; one result like ``mean`` per power.

    ``log_laplace`` maps t [..., nodes] to log E[e^(−tX)]. The substitution t = exp(v − exp(−v))/E[X] makes the rule
    converge doubly exponentially; E[X] only sets the scale, so it is held fixed in derivatives.
    """
    step = (TO - FROM) / (NODES - 1)
    v = torch.linspace(FROM, TO, NODES, dtype=torch.double, device=mean.device)
    t = torch.exp(v - torch.exp(-v)) / mean.detach()[..., None]
    weight = torch.exp(log_laplace(t)) * (step * (1.0 + torch.exp(-v)))  # dt = t (1 + e^(−v)) dv
    return [(weight * t.pow(s)).sum(-1) / math.gamma(s) for s in powers]


def expansion(mean: Tensor, variance: Tensor, power: float) -> Tensor:
    """E[X^−s] ≈ μ^−s + ½ s(s+1) σ² μ^(−s−2), the paper's second-order expansion (Lemmas C.1, C.2, E.1, E.2)."""
    return mean.pow(-power) + 0.5 * power * (power + 1.0) * variance * mean.pow(-power - 2.0)
