"""A rate rule of somebody's own: p follows an average of the loss's gradient norms."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import rade


@dataclass(frozen=True)
class Slow(rade.Rule):
    """p = average / (1 + average), where the average of gradient norms forgets at a rate."""

    forget: float = 0.5
    reads = ("data_norm",)

    def init(self) -> dict[str, Tensor]:
        return super().init() | {"average": torch.zeros((), dtype=torch.double)}

    def step(self, state: dict[str, Tensor], density: Tensor, seen: Any) -> dict[str, Tensor]:
        average = state["average"].lerp(seen.data_norm.double(), self.forget)
        return state | {"average": average, "p": average / (1.0 + average)}
