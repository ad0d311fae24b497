"""Rate rules: constant rates, and the gradient-norm rule that adapts p and ρ = q/D   (Eq. 14–15)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from rade.control.regulariser import Regulariser, average
from rade.graph.graph import Graph
from rade.view.view import Rates

LARGEST_P = 1.0 - 1e-6  # p = 1 has no correction
JUST_INSIDE = 1e-8  # at a rate of exactly 0 the norm has only a one-sided derivative: take it here
EPSILON = 1e-12  # the paper's ε: keeps the logarithm finite when a gradient vanishes
BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8


class RateController(Module):
    """Holds (p, ρ, D) as buffers; ``step`` is what a rule adds."""

    p: Tensor
    rho: Tensor
    density: Tensor

    def __init__(self, p: float, rho: float, density: float | None) -> None:
        super().__init__()
        Rates(p, 0.0)
        if not rho >= 0.0:
            raise ValueError(f"rho = q/density must be at least 0, got {rho}")
        if density is not None and not 0.0 <= density <= 1.0:
            raise ValueError(f"density must lie in [0, 1], got {density}; it is edges over pairs of nodes")
        self.register_buffer("p", torch.tensor(float(p), dtype=torch.double))
        self.register_buffer("rho", torch.tensor(float(rho), dtype=torch.double))
        self.register_buffer("density", torch.tensor(math.nan if density is None else density, dtype=torch.double))

    @property
    def rates(self) -> Rates:
        """Current (p, q = ρD); q is 0 until the density is known."""
        return self.rates_at(0.0)

    def rates_at(self, density: float) -> Rates:
        """Current (p, q = ρD), with the given density as long as none is known."""
        density = density if math.isnan(float(self.density)) else float(self.density)
        return Rates(float(self.p), min(max(float(self.rho) * density, 0.0), 1.0))

    def see(self, graph: Graph) -> None:
        """Take the pooled density of the first training graph, over all ranks, unless one was given."""
        if math.isnan(float(self.density)):
            edges, pairs = average(torch.tensor([graph.num_edges, int(graph.pair_offset[-1])]).to(self.density))
            self.density.copy_(edges / pairs.clamp(min=1.0))

    def step(self, regulariser: Regulariser, data_norm: Tensor, parameters: Sequence[Parameter]) -> None:
        """One update of the rates; constant here."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RateController:
        """Follow the model to its device but keep double precision: in bfloat16 a step of 1e-3 would be lost."""
        super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return self


class ConstantRates(RateController):
    """Rates that stay as given."""


@dataclass(frozen=True)
class Pull:
    """One evaluation of the objective: J, its slope in (p, ρ), and the gradient norm of the regulariser."""

    objective: Tensor
    slope: Tensor  # [2]
    norm: Tensor


class GradNormRates(RateController):
    """One Adam step at a time on J(p, ρ) = [log((G_reg+ε)/(G_data+ε))]² + λρ², then projection (Algorithm 1).

    A rate given as 0 is switched off and stays off; one that adapts down to 0 may come back.
    """

    first: Tensor
    second: Tensor
    steps: Tensor
    skipped: Tensor

    def __init__(
        self,
        p: float,
        rho: float,
        density: float | None,
        penalty: float = 1.0,
        lr: float = 1e-3,
        max_p: float = LARGEST_P,
    ) -> None:
        super().__init__(p, rho, density)
        if not 0.0 <= max_p <= LARGEST_P:
            raise ValueError(f"max_p must lie in [0, {LARGEST_P}], got {max_p}; it bounds the drop rate that adapts")
        if p > max_p:
            raise ValueError(f"the first drop rate p must be at most max_p = {max_p}, got {p}")
        if not penalty >= 0.0:
            raise ValueError(f"penalty must be at least 0, got {penalty}")
        if not lr > 0.0:
            raise ValueError(f"rate_lr must be positive, got {lr}; pass adaptive=False for constant rates")
        self.penalty, self.lr, self.max_p = penalty, lr, max_p
        self.active = (p > 0.0, rho > 0.0)
        self.register_buffer("first", torch.zeros(2, dtype=torch.double))
        self.register_buffer("second", torch.zeros(2, dtype=torch.double))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("skipped", torch.zeros((), dtype=torch.long))

    def step(self, regulariser: Regulariser, data_norm: Tensor, parameters: Sequence[Parameter]) -> None:
        """Move (p, ρ) down the slope of J; a step that is not finite is skipped and counted."""
        pull = self.pull(regulariser, data_norm, parameters)
        if not bool(torch.isfinite(pull.slope).all()):
            self.skipped += 1
            return
        self._adam(pull.slope * pull.slope.new_tensor(self.active))

    def pull(self, regulariser: Regulariser, data_norm: Tensor, parameters: Sequence[Parameter]) -> Pull:
        """J and dJ/d(p, ρ) at the current rates."""
        p, rho = (self._leaf(value, on) for value, on in zip((self.p, self.rho), self.active))
        q = (rho.detach() * self.density).clamp(max=1.0).requires_grad_(self.active[1])
        norm, along = regulariser.norm(Rates(p, q), parameters)
        return self._objective(norm, along * torch.stack([torch.ones_like(p), self.density]), data_norm.double(), rho)

    def _objective(self, norm: Tensor, along: Tensor, data_norm: Tensor, rho: Tensor) -> Pull:
        rho = rho.detach()
        ratio = torch.log((norm + EPSILON) / (data_norm + EPSILON))
        slope = 2.0 * ratio / (norm + EPSILON) * along
        slope = slope + slope.new_tensor([0.0, 2.0 * self.penalty]) * rho
        return Pull(ratio.square() + self.penalty * rho.square(), slope, norm)

    def _leaf(self, value: Tensor, active: bool) -> Tensor:
        inside = value.detach().clamp(min=JUST_INSIDE) if active else value.detach()
        return inside.clone().requires_grad_(active)

    def _adam(self, slope: Tensor) -> None:
        self.steps += 1
        self.first.lerp_(slope, 1.0 - BETAS[0])
        self.second.lerp_(slope.square(), 1.0 - BETAS[1])
        mean = self.first / (1.0 - BETAS[0] ** int(self.steps))
        spread = self.second / (1.0 - BETAS[1] ** int(self.steps))
        move = self.lr * mean / (spread.sqrt() + ADAM_EPSILON)
        self.p.sub_(move[0]).clamp_(0.0, self.max_p)
        # q = ρD is at most 1; without edges D is 0 and ρ unbounded.
        self.rho.sub_(move[1]).clamp_(torch.zeros_like(self.rho), self.density.reciprocal())


def gradient_norm(parameters: Sequence[Parameter]) -> Tensor:
    """‖∇θL‖ of the gradients that ``loss.backward()`` left."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise RuntimeError(
            "adapt() needs the gradients of the training step: call it after loss.backward() and before zero_grad()"
        )
    norms: Tensor = torch.stack([gradient.detach().double().norm() for gradient in gradients]).norm()
    return norms


def clean_gradient_norm(
    logits: Tensor, loss: Callable[[Tensor], Tensor] | None, parameters: Sequence[Parameter], share: float = 1.0
) -> Tensor:
    """‖∇θL‖ on the input graph, the authors' choice, for comparison; ``share`` weighs this process's part."""
    if loss is None:
        raise ValueError("data_gradient='clean' needs the loss on the input graph: adapt(..., loss=lambda logits: ...)")
    gradients = torch.autograd.grad(share * loss(logits), parameters, retain_graph=True, allow_unused=True)
    norm: Tensor = average(torch.cat([g.flatten().double() for g in gradients if g is not None])).norm()
    return norm
