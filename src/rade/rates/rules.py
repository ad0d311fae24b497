"""Rate rules: how p and ρ = q/D move after a training step (Eq. 14–15). A rule is a value; its state is tensors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from rade.distribution import Rates, Views
from rade.errors import choose
from rade.rates.regulariser import Regulariser
from rade.runtime import average

DataGradient = Literal["training", "clean"]
Reads = Literal["regulariser", "data_norm", "logits"]
State = dict[str, Tensor]
LARGEST_P = 1.0 - 1e-6  # p = 1 has no correction
JUST_INSIDE = 1e-8  # at a rate of exactly 0 the norm has only a one-sided derivative: take it here
EPSILON = 1e-12  # the paper's ε: keeps the logarithm finite when a gradient vanishes
BETAS, ADAM_EPSILON = (0.9, 0.999), 1e-8
LEAST = 1e-3  # a rate that goes on falling is as good as 0, and could not come back in time
TINY = 1e-30  # a ratio of two numbers that vanish together says nothing: it is clipped like any other


@dataclass(frozen=True, eq=False)
class Logits:
    """Logits of the labelled rows: as they were in training, and on the mean over views; for a softmax relative to
    their mean over classes, since a common shift changes nothing.
    """

    training: Tensor  # [k, C]
    mean: Tensor  # [k, C]


class Seen:
    """What a rule sees of a training step; only what it names in ``reads`` is there: a rule pays for what it looks at.

    Attributes:
        regulariser: R as a function of the rates, with its gradient norm (Eq. 13).
        data_norm: G_data = ‖∇θL‖.
        logits: of the labelled rows, detached, with and without noise.
    """

    regulariser: Regulariser
    data_norm: Tensor
    logits: Logits

    def __init__(
        self, regulariser: Regulariser | None = None, data_norm: Tensor | None = None, logits: Logits | None = None
    ) -> None:
        for name, value in (("regulariser", regulariser), ("data_norm", data_norm), ("logits", logits)):
            if value is not None:
                setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """What is not there."""
        if name not in get_args(Reads):
            raise AttributeError(name)
        raise ValueError(f"this rule looks at {name} but does not list it: put reads = ({name!r},) into its class")


@dataclass(frozen=True)
class Rule(ABC):
    """How rates move. A rule of one's own is a frozen dataclass with `step`, and `init` where it keeps more than rates;
    ``reads`` names what `step` looks at.

    Attributes:
        p: first drop rate; 0 switches dropping off for good, unless a rule of your own moves it.
        rho: first add rate as a multiple of the density, ρ = q/D; 0 switches adding off.
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

    def check_views(self, views: Views) -> None:
        """Refuse views that tell a rule nothing: rates adapt by the noise that they bring."""
        if self.adapts and views.sampling == "expected":
            raise ValueError(
                "sampling='expected' draws no views, so rates cannot adapt; keep them constant, "
                "rule=rade.Constant(p, rho)"
            )

    def init(self) -> State:
        """The first state: double-precision scalars ``p`` and ``rho``, and whatever else the rule keeps."""
        return {"p": double(self.p), "rho": double(self.rho)}

    @abstractmethod
    def step(self, state: State, density: Tensor, seen: Seen) -> State:
        """The state after one training step, by what it reads of what is ``seen``; D = ``density``, q = ρD."""


@dataclass(frozen=True)
class Constant(Rule):
    """Rates that stay as given, by default mild ones: what RADE(model) does (decided by figures, docs/rates.md)."""

    p: float = 0.2
    rho: float = 0.2
    adapts: ClassVar[bool] = False

    def step(self, state: State, density: Tensor, seen: Seen) -> State:
        return state


DEFAULT: Rule = Constant()


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
        _require_below(self.p, self.max_p)
        if not 0.0 <= self.penalty < math.inf:
            raise ValueError(f"penalty must be a finite number of at least 0, got {self.penalty}")
        if not 0.0 < self.lr < math.inf:
            raise ValueError(
                f"the rates' lr must be a finite positive number, got {self.lr}; rade.Constant keeps rates constant"
            )

    def init(self) -> State:
        """The rates, Adam's averages, and how many steps were taken and skipped."""
        averages = {name: torch.zeros(2, dtype=torch.double) for name in ("first", "second")}
        counts = {name: torch.zeros((), dtype=torch.long) for name in ("steps", "skipped")}
        return super().init() | averages | counts

    def step(self, state: State, density: Tensor, seen: Seen) -> State:
        """Move (p, ρ) down the slope of J."""
        _, slope = self.objective(state, density, seen)
        if not bool(torch.isfinite(slope).all()):
            return state | {"skipped": state["skipped"] + 1}
        # The rule's own p and ρ tell which rates are on, not the state, which may reach 0 and come back.
        return self._adam(state, density, slope * slope.new_tensor([self.p > 0.0, self.rho > 0.0]))

    def objective(self, state: State, density: Tensor, seen: Seen) -> tuple[Tensor, Tensor]:
        """J and dJ/d(p, ρ) [2] at the rates of a state."""
        p, rho = state["p"].detach(), state["rho"].detach()
        if self.p > 0.0:
            p = p.clamp(min=JUST_INSIDE).requires_grad_()
        if self.rho > 0.0:
            rho = rho.clamp(min=JUST_INSIDE)
        norm, along = seen.regulariser.norm(Rates(p, (rho * density).clamp(max=1.0).requires_grad_(self.rho > 0.0)))
        along = along * torch.stack([torch.ones_like(p), density])
        ratio = torch.log((norm + EPSILON) / (seen.data_norm.double() + EPSILON))
        slope = 2.0 * ratio / (norm + EPSILON) * along
        slope = slope + slope.new_tensor([0.0, 2.0 * self.penalty]) * rho
        return ratio.square() + self.penalty * rho.square(), slope

    def _adam(self, state: State, density: Tensor, slope: Tensor) -> State:
        steps = state["steps"] + 1
        first = state["first"].lerp(slope, 1.0 - BETAS[0])
        second = state["second"].lerp(slope.square(), 1.0 - BETAS[1])
        mean = first / (1.0 - BETAS[0] ** steps.double())
        square = second / (1.0 - BETAS[1] ** steps.double())
        move = self.lr * mean / (square.sqrt() + ADAM_EPSILON)
        p = (state["p"] - move[0]).clamp(0.0, self.max_p)
        # q = ρD is at most 1; without edges D is 0 and ρ unbounded.
        rho = (state["rho"] - move[1]).clamp(torch.zeros_like(state["rho"]), density.reciprocal())
        return state | {"p": p, "rho": rho, "first": first, "second": second, "steps": steps}


@dataclass(frozen=True)
class NoiseRatio(Rule):
    """Keep the noise-to-signal ratio of the logits at ν: log odds(p) += clip(log(ν · signal/noise), ±2)/T.

    signal is the variance over labelled rows of the logits on the mean over views, noise their mean squared deviation
    in training (dropout and batch norm of the model's own included). Noise grows with the odds of p, so the rule ends
    at the same place from any start. Its averages last a quarter of its own horizon T, which damps it critically:
    T u' = −û, τ û' = u − û has no overshoot for τ ≤ T/4. It needs no gradients, no linear head and no variance formula.

    Attributes:
        nu: ν, the noise variance over the signal variance.
        horizon: T, steps in which the log odds follow a constant pull of one.
        max_p: upper bound of the drop rate.
        tied: whether ρ moves with p, in the proportion of the first rates (equal ones keep expected degrees), or stays.
    """

    nu: float = 0.1
    horizon: float = 50.0
    max_p: float = 0.9
    tied: bool = True
    reads: ClassVar[tuple[Reads, ...]] = ("logits",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.nu < math.inf:
            raise ValueError(f"nu must be a finite positive number, got {self.nu}; it is noise over signal")
        if not 4.0 <= self.horizon < math.inf:
            raise ValueError(f"horizon must be a number of at least 4 steps, got {self.horizon}")
        if not 0.0 < self.max_p < 1.0:
            raise ValueError(f"max_p must lie in (0, 1), got {self.max_p}; it bounds the drop rate that adapts")
        _require_below(self.p, self.max_p)

    def init(self) -> State:
        """The rates, the log odds of p (of ρ/(1+ρ) where nothing is dropped), and two averages."""
        odds = _log_odds(self._first) if self._first else 0.0
        return super().init() | {"log_odds": double(odds), "signal": double(0.0), "noise": double(0.0)}

    @property
    def _first(self) -> float:
        return self.p if self.p > 0.0 else self.rho / (1.0 + self.rho)

    def step(self, state: State, density: Tensor, seen: Seen) -> State:
        """Measure signal and noise, and move the odds; a step that is not finite changes nothing."""
        here, decay = self._measured(seen), 1.0 - 4.0 / self.horizon
        if not bool(torch.isfinite(here).all()):
            return state
        # Both averages start at 0 and miss the same mass, which cancels in their ratio.
        signal, noise = (decay * state[name] + (1.0 - decay) * new for name, new in zip(("signal", "noise"), here))
        pull = torch.log(self.nu * (signal + TINY) / (noise + TINY)).clamp(-2.0, 2.0)
        least = min(LEAST, self._first or LEAST)
        odds = (state["log_odds"] + pull / self.horizon).clamp(_log_odds(least), _log_odds(self.max_p))
        return state | self._rates(odds, density) | {"log_odds": odds, "signal": signal, "noise": noise}

    def _measured(self, seen: Seen) -> Tensor:
        """Signal and noise of one step, [2]; averaged over the ranks of a distributed run."""
        training, mean = seen.logits.training.double(), seen.logits.mean.double()
        signal = (mean - mean.mean(0)).square().mean()
        return average(torch.stack([signal, (training - mean).square().mean()]))

    def _rates(self, odds: Tensor, density: Tensor) -> State:
        """A rate given as 0 stays off."""
        moving = odds.sigmoid()
        p = moving if self.p > 0.0 else double(0.0).to(odds)
        if self.rho == 0.0 or (self.p > 0.0 and not self.tied):
            rho = double(self.rho).to(odds)
        else:
            rho = moving * (self.rho / self.p) if self.p > 0.0 else odds.exp()
        return {"p": p, "rho": torch.minimum(rho, density.reciprocal())}  # q = ρD is at most 1


def double(value: float) -> Tensor:
    """A number as a state has it."""
    return torch.tensor(float(value), dtype=torch.double)


def _require_below(p: float, max_p: float) -> None:
    if p > max_p:
        raise ValueError(f"the first drop rate p must be at most max_p = {max_p}, got {p}")


def _log_odds(p: float) -> float:
    return math.log(p / (1.0 - p))
