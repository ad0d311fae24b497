"""E[X^−s] of a positive random X: by its Laplace transform, or by an expansion around its mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from rade.memory import Memo, remembered

NODES, FROM, TO = 128, -4.6, 6.0  # trapezoid nodes in v: relative error below 1e-11 for s ≤ 2 (docs/moments.md)
STEP = (TO - FROM) / (NODES - 1)


def points(scale: Tensor, to: float = TO) -> tuple[Tensor, Tensor]:
    """Where the rule looks: t = exp(v − exp(−v))/scale, [..., nodes], and dt/t at each, [nodes].

    The substitution makes the trapezoid rule converge doubly exponentially; ``scale`` is held fixed in derivatives.
    """
    count = math.ceil(round((to - FROM) / STEP, 6))
    v = torch.linspace(FROM, FROM + count * STEP, count + 1, dtype=torch.double, device=scale.device)
    return torch.exp(v - torch.exp(-v)) / scale.detach()[..., None], STEP * (1.0 + torch.exp(-v))


@dataclass(frozen=True, eq=False)
class Integral:
    """E[X^−s] = 1/Γ(s) ∫₀^∞ t^(s−1) E[e^(−tX)] dt for X = c + Bin(a, 1−p) + Bin(b, q), by the trapezoid rule in v.

    log E[e^(−tX)] = a log(p + (1−p)e^(−t)) + b log(1−q + q e^(−t)) − ct, at the rates that set the scale of ``t``.
    What was found there is kept, and serves values and derivatives alike.
    """

    a: Tensor
    b: Tensor
    c: Tensor
    p: float
    q: float
    t: Tensor  # [..., nodes]
    steps: Tensor  # dt/t, [nodes]
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @remembered
    def gone(self) -> Tensor:
        """1 − e^(−t)."""
        # It may round to 1, and 0·log 0 is no number: stop one ulp short, where the value is below e^(−36).
        return (-torch.expm1(-self.t)).clamp(max=1.0 - 2.0**-53)

    def weight(self, p: float | Tensor, q: float | Tensor) -> Tensor:
        """E[e^(−tX)] dt/t."""
        kept, added = torch.log1p((p - 1.0) * self.gone), torch.log1p(-q * self.gone)
        exponent = self.a[..., None] * kept + self.b[..., None] * added - self.c[..., None] * self.t
        return exponent.exp() * self.steps

    @remembered
    def here(self) -> Tensor:
        """The weight at the integral's own rates."""
        return self.weight(self.p, self.q)

    def values(self, powers: tuple[float, ...]) -> list[Tensor]:
        """E[X^−s] for each power."""
        return self.memo.once(powers, lambda: [(self.here * self._power(s)).sum(-1) for s in powers])

    def slopes(self, powers: tuple[float, ...], p: Tensor, q: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The derivatives of each in p and q; differentiable again where the rates are."""
        again = torch.is_grad_enabled() and (p.requires_grad or q.requires_grad)
        weight, gone = self.weight(p, q) if again else self.here, self.gone
        in_p, in_q = weight * (gone / (1.0 + (p - 1.0) * gone)), weight * (gone / (1.0 - q * gone))
        scaled = [self._power(s) for s in powers]
        return [(self.a * (in_p * one).sum(-1), -self.b * (in_q * one).sum(-1)) for one in scaled]

    def _power(self, s: float) -> Tensor:
        return self.t.pow(s) / math.gamma(s)


class _InverseMoments(torch.autograd.Function):
    """The values of an integral; their derivatives, to any order, from its slopes."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, integral: Integral, powers: tuple[float, ...]) -> tuple[Tensor, ...]:
        ctx.integral, ctx.powers = integral, powers
        ctx.save_for_backward(p, q)
        ctx.save_for_forward(p, q)
        return tuple(value.clone() for value in integral.values(powers))  # what is kept has no derivatives

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        slopes = ctx.integral.slopes(ctx.powers, *ctx.saved_tensors)
        along = [[(of * gradient).sum() for of in pair] for pair, gradient in zip(slopes, gradients)]
        in_p, in_q = (cast(Tensor, sum(parts)) for parts in zip(*along))
        return in_p, in_q, None, None

    @staticmethod
    def jvp(ctx: Any, p_t: Tensor, q_t: Tensor, *_: None) -> tuple[Tensor, ...]:
        slopes = ctx.integral.slopes(ctx.powers, *ctx.saved_tensors)
        return tuple(in_p * p_t + in_q * q_t for in_p, in_q in slopes)


def inverse_moments(
    integral: Integral, p: float | Tensor, q: float | Tensor, powers: tuple[float, ...]
) -> list[Tensor]:
    """E[X^−s] for each power, at the integral's own rates; differentiable in them."""
    if not any(isinstance(rate, Tensor) for rate in (p, q)):
        return integral.values(powers)
    rates = (torch.as_tensor(rate, dtype=torch.double, device=integral.t.device) for rate in (p, q))
    return list(_InverseMoments.apply(*rates, integral, powers))  # type: ignore[no-untyped-call]


def expansion(mean: Tensor, variance: Tensor, power: float) -> Tensor:
    """E[X^−s] ≈ μ^−s + ½ s(s+1) σ² μ^(−s−2), the paper's second-order expansion (Lemmas C.1, C.2, E.1, E.2)."""
    inverse = mean.reciprocal()
    return inverse.pow(power) * (1.0 + 0.5 * power * (power + 1.0) * variance * inverse.square())
