"""Rate rules: how p and ρ = q/D move after a training step (Eq. 14–15). A rule is a value; its state is tensors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from rade.control.evidence import Evidence, Reads
from rade.errors import choose
from rade.view.law import Correction, Views
from rade.view.rates import Rates

DataGradient = Literal["training", "clean"]
State = dict[str, Tensor]
LARGEST_P = 1.0 - 1e-6  # p = 1 has no correction
JUST_INSIDE = 1e-8  # at a rate of exactly 0 the norm has only a one-sided derivative: take it here
EPSILON = 1e-12  # the paper's ε: keeps the logarithm finite when a gradient vanishes
BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Rule(ABC):
    """How rates move. A rule of one's own is a frozen dataclass with `step`, and `init` where it keeps more than rates;
    ``reads`` names what `step` looks at.

    Attributes:
        p: first drop rate; 0 switches dropping off for good, unless a rule of your own moves it.
        rho: first add rate as a multiple of the density, ρ = q/D; 0 switches adding off likewise.
        data_gradient: whether G_data is the norm of the gradient that the ``"training"`` step left, or that of the loss
            on the ``"clean"`` graph, as in the published code (needs ``labelled.loss`` in `adapt`).
    """

    p: float = 0.5
    rho: float = 0.5
    data_gradient: DataGradient = field(default="training", kw_only=True)
    adapts: ClassVar[bool] = True
    reads: ClassVar[tuple[Reads, ...]] = ()  # what `step` looks at of what is seen

    def __post_init__(self) -> None:
        Rates(self.p, 0.0)
        if not 0.0 <= self.rho < math.inf:
            raise ValueError(f"rho = q/density must be a finite number of at least 0, got {self.rho}")
        choose("data_gradient", self.data_gradient, get_args(DataGradient))
        for name in self.reads:
            choose("what a rule reads", name, get_args(Reads))

    def check(self, correction: Correction) -> None:  # noqa: B027 - most rules can use any
        """Refuse a correction that this rule cannot use."""

    def check_views(self, views: Views) -> None:
        """Refuse views that tell a rule nothing: rates adapt by the noise that they bring."""
        if self.adapts and views.sampling == "expected":
            raise ValueError(
                "sampling='expected' draws no views, so nothing tells rates where to go; keep them, "
                "rule=rade.Constant(p, rho)"
            )

    def init(self) -> State:
        """The first state: double-precision scalars ``p`` and ``rho``, and whatever else the rule keeps."""
        return {"p": double(self.p), "rho": double(self.rho)}

    @abstractmethod
    def step(self, state: State, density: Tensor, seen: Evidence) -> State:
        """The state after one training step, by what it reads of what is ``seen``; D = ``density``, q = ρD."""


@dataclass(frozen=True)
class Constant(Rule):
    """Rates that stay as given, by default mild ones: what RADE(model) does (decided by figures, docs/rates.md)."""

    p: float = 0.2
    rho: float = 0.2
    adapts: ClassVar[bool] = False

    def step(self, state: State, density: Tensor, seen: Evidence) -> State:
        return state


DEFAULT: Rule = Constant()


@dataclass(frozen=True)
class Pull:
    """One evaluation of the objective: J, its slope in (p, ρ), and the gradient norm of the regulariser."""

    objective: Tensor
    slope: Tensor  # [2]
    norm: Tensor


@dataclass(frozen=True)
class GradNorm(Rule):
    """One Adam step at a time on J(p, ρ) = [log((G_reg+ε)/(G_data+ε))]² + λρ², then projection (Algorithm 1).

    A rate that adapts down to 0 may come back. A step that is not finite is skipped and counted.

    Attributes:
        penalty: λ. The paper has 1 at node level and 0.1 on graphs.
        lr: Adam's step on the rates.
        max_p: upper bound of the drop rate; the published code has 0.9 on graphs.
    """

    penalty: float = 1.0
    lr: float = 1e-3
    max_p: float = LARGEST_P
    reads: ClassVar[tuple[Reads, ...]] = ("regulariser", "data_norm")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.max_p <= LARGEST_P:
            raise ValueError(
                f"max_p must lie in [0, {LARGEST_P}], got {self.max_p}; it bounds the drop rate that adapts"
            )
        if self.p > self.max_p:
            raise ValueError(f"the first drop rate p must be at most max_p = {self.max_p}, got {self.p}")
        if not 0.0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be a finite number of at least 0, got {self.penalty}")
        if not 0.0 < self.lr < math.inf:
            raise ValueError(
                f"the rates' lr must be a finite positive number, got {self.lr}; rade.Constant keeps rates constant"
            )

    def check(self, correction: Correction) -> None:
        """Averages over samples have no slope."""
        if correction.moments == "monte-carlo":
            raise ValueError(
                "moments='monte-carlo' has no derivative in the rates; pass rule=rade.Constant(...) as well"
            )

    def init(self) -> State:
        """The rates, Adam's averages, and how many steps were taken and skipped."""
        averages = {name: torch.zeros(2, dtype=torch.double) for name in ("first", "second")}
        counts = {name: torch.zeros((), dtype=torch.long) for name in ("steps", "skipped")}
        return super().init() | averages | counts

    def step(self, state: State, density: Tensor, seen: Evidence) -> State:
        """Move (p, ρ) down the slope of J."""
        pull = self.pull(state, density, seen)
        if not bool(torch.isfinite(pull.slope).all()):
            return state | {"skipped": state["skipped"] + 1}
        return self._adam(state, density, pull.slope * pull.slope.new_tensor(self._active))

    def pull(self, state: State, density: Tensor, seen: Evidence) -> Pull:
        """J and dJ/d(p, ρ) at the rates of a state."""
        p, rho = (_leaf(value, on) for value, on in zip((state["p"], state["rho"]), self._active))
        q = (rho.detach() * density).clamp(max=1.0).requires_grad_(self._active[1])
        norm, along = seen.regulariser.norm(Rates(p, q))
        rho, along = rho.detach(), along * torch.stack([torch.ones_like(p), density])
        ratio = torch.log((norm + EPSILON) / (seen.data_norm.double() + EPSILON))
        slope = 2.0 * ratio / (norm + EPSILON) * along
        slope = slope + slope.new_tensor([0.0, 2.0 * self.penalty]) * rho
        return Pull(ratio.square() + self.penalty * rho.square(), slope, norm)

    @property
    def _active(self) -> tuple[bool, bool]:
        """Which rates are on: the rule's own p and ρ tell, not the state, which may reach 0 and come back."""
        return self.p > 0.0, self.rho > 0.0

    def _adam(self, state: State, density: Tensor, slope: Tensor) -> State:
        steps = state["steps"] + 1
        first = state["first"].lerp(slope, 1.0 - BETAS[0])
        second = state["second"].lerp(slope.square(), 1.0 - BETAS[1])
        mean = first / (1.0 - BETAS[0] ** int(steps))
        square = second / (1.0 - BETAS[1] ** int(steps))
        move = self.lr * mean / (square.sqrt() + ADAM_EPSILON)
        p = (state["p"] - move[0]).clamp(0.0, self.max_p)
        # q = ρD is at most 1; without edges D is 0 and ρ unbounded.
        rho = (state["rho"] - move[1]).clamp(torch.zeros_like(state["rho"]), density.reciprocal())
        return state | {"p": p, "rho": rho, "first": first, "second": second, "steps": steps}


def double(value: float) -> Tensor:
    """A number as a state has it."""
    return torch.tensor(float(value), dtype=torch.double)


def _leaf(value: Tensor, active: bool) -> Tensor:
    inside = value.detach().clamp(min=JUST_INSIDE) if active else value.detach()
    return inside.clone().requires_grad_(active)
