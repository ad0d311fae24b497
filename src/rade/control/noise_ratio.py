"""A rule that holds what can be measured: the noise of the logits relative to their signal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rade.control.evidence import Evidence, Reads
from rade.control.rules import Rule, State, double
from rade.distributed import average

LEAST = 1e-3  # a rate that goes on falling is as good as 0, and could not come back in time
TINY = 1e-30  # a ratio of two numbers that vanish together says nothing: it is clipped like any other


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
        if self.p > self.max_p:
            raise ValueError(f"the first drop rate p must be at most max_p = {self.max_p}, got {self.p}")

    def init(self) -> State:
        """The rates, the log odds of p (of ρ/(1+ρ) where nothing is dropped), and two averages."""
        return super().init() | {
            "log_odds": double(_log_odds(self._first) if self._first else 0.0),
            "signal": double(0.0),
            "noise": double(0.0),
        }

    @property
    def _first(self) -> float:
        return self.p if self.p > 0.0 else self.rho / (1.0 + self.rho)

    def step(self, state: State, density: Tensor, seen: Evidence) -> State:
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

    def _measured(self, seen: Evidence) -> Tensor:
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


def _log_odds(p: float) -> float:
    return math.log(p / (1.0 - p))
