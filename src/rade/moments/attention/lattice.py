"""One dyadic lattice for E[X^−r] of every positive X, whatever its law: t = 2^k in the Laplace transform.

    1/X = ln 2 · Σ_{k∈Z} 2^k e^(−2^k X) (1 + ε),   |ε| ≤ 2|Γ(1 + 2πi/ln 2)| = 1.0e-5 for every X > 0   (1/X²: 9e-5),

so the bound holds for any law of X. Only the two ends must follow X. Four weights at the first levels stand for all
smaller k: they are exact for integrands t, t², t³, t⁴, and the first level is so small that nothing else is left.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LN2 = math.log(2.0)
START = 4  # the first level has 2^k · 2^START · E[X] ≤ 1
FINISH = math.log(10.0)  # the last one 2^k · (smallest X) ≥ 10: what is left out begins at 20 e^−20
FAINT, SILENT = -14.0, 4.1  # log y: below the first a pair is felt to first order only, beyond the second not at all
LARGEST = 5.52  # log y is cut here: e^−y is then 1e-109, and products of it are not denormal, which would be slow


def end_weights() -> Tensor:
    """γ with Σ_i γ_i 2^{i(r+1)} = 1/(2^{r+1} − 1), r = 0 … 3: (2.2508, −0.7968, 0.0921, −0.0032)."""
    i = torch.arange(4, dtype=torch.double)
    solution: Tensor = torch.linalg.solve(2.0 ** (i * (i[:, None] + 1)), 1 / (2.0 ** (i + 1) - 1))
    return solution


def first_level(top: Tensor) -> Tensor:
    """The first k for a sum whose mean, and whose largest term, are at most e^top."""
    return torch.floor(-top / LN2) - START


def last_level(bottom: Tensor) -> Tensor:
    """The last k for a sum that is at least e^bottom."""
    return torch.ceil((FINISH - bottom) / LN2)


def node_weights(levels: int, like: Tensor) -> Tensor:
    """ln 2 for each of the levels, the first four with what lies before them, [levels]."""
    weight = like.new_full((levels,), LN2)
    weight[:4] += LN2 * end_weights()[:levels].to(like)
    return weight


def terms(log_y: Tensor) -> tuple[Tensor, Tensor]:
    """y and e^−y; both finite and positive at any log y."""
    y = log_y.clamp(max=LARGEST).exp()
    return y, torch.exp(-y)


def mixed(rate: float | Tensor, u: Tensor) -> Tensor:
    """E[e^(−y A)] = 1 − π + π e^−y of a pair that is on at rate π, u = e^−y; never zero."""
    return (1.0 - rate) + rate * u


def variance_from(mean: Tensor, square: Tensor, rate: float | Tensor) -> Tensor:
    """Var[α'] from the moments given that the pair is on: π(m₂ − m₁²) + π(1−π) m₁².

    The two rules have errors of their own, so the first term is kept from falling below zero.
    """
    return rate * (square - mean.square()).clamp(min=0) + rate * (1.0 - rate) * mean.square()
