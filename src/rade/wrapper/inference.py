"""How a model in evaluation mode predicts: values that say what its layers aggregate over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_map

from rade.distribution import NO_NOISE, Rates, Trust
from rade.nn.context import Context
from rade.nn.trace import Again

ForwardPass = partial[Any]


@dataclass(frozen=True)
class Inference(ABC):
    """How to predict.

    Attributes:
        rates: rates to predict at, in place of the model's own.
    """

    rates: Rates | None = field(default=None, kw_only=True)

    @abstractmethod
    def __call__(self, context: Context, run: ForwardPass) -> Any:
        """The prediction; ``run`` is a forward pass of the model, whose layers ask the context."""


@dataclass(frozen=True)
class Expected(Inference):
    """One pass on the mean over all views: the plain model for RADE-OF, with the expected additions for RADE-OFS."""

    def __call__(self, context: Context, run: ForwardPass) -> Any:
        if self.rates is None:
            return run()
        with context.using(rates=self.rates):
            return run()


@dataclass(frozen=True)
class Denoised(Inference):
    """One pass on a graph that has ``noise.p`` of its real edges missing and ``noise.q`` of its other pairs spurious.

    The contribution of spurious edges is taken off in the mean and that of missing ones made up for; on a graph
    without noise it is the clean aggregation. Works for models that were never trained with RADE:
    ``RADE(net, rule=Constant(0, 0), inference=Denoised(noise=Rates(0, 1e-4)))``. `rade.estimate_noise` finds the rates,
    and ``trust`` in single edges of one graph, which attention (GAT) needs to gain by it.
    """

    noise: Rates = NO_NOISE
    trust: Trust = Trust()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Rates):
            raise TypeError(f"noise must be a rade.Rates, such as rade.Rates(p=0.0, q=1e-4), got {self.noise!r}")
        p, q = self.noise.numbers
        if p + q >= 1.0:
            raise ValueError(
                f"noise rates must add up to less than 1, got p = {p:g} and q = {q:g}: beyond that an observed edge "
                "says nothing, or the opposite"
            )

    @staticmethod
    def of(noise: Rates | Denoised) -> Denoised:
        """What undoes noise that is given as rates alone, or with trust in the single edges of a graph."""
        if not isinstance(noise, Rates | Denoised):
            raise TypeError(f"noise must be a rade.Rates or a rade.Denoised, got {noise!r}")
        return Denoised(noise) if isinstance(noise, Rates) else noise

    def __call__(self, context: Context, run: ForwardPass) -> Any:
        with context.using(rates=self.rates, noise=self.noise, trust=self.trust):
            return run()


@dataclass(frozen=True)
class Ensemble(Inference):
    """The mean output over ``size`` sampled views."""

    size: int = 8

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an ensemble needs at least one view, got size = {self.size}")

    def __call__(self, context: Context, run: ForwardPass) -> Any:
        run = Again(run.func, *run.args, **run.keywords)
        total = sampled(context, run, self.rates)
        for _ in range(self.size - 1):
            total = tree_map(_sum, total, sampled(context, run, self.rates))
        return tree_map(lambda part: part / self.size if _is_number(part) else part, total)


def sampled(context: Context, run: ForwardPass, rates: Rates | None = None, **changes: Any) -> Any:
    """One pass on views, whatever the mode of the model."""
    with context.using(mode="views", rates=rates, **changes), context.afresh():
        return run()


def _sum(one: Any, other: Any) -> Any:
    """Of real numbers; what else a model returns, classes say, is that of the first view."""
    return one + other if _is_number(one) else one


def _is_number(part: object) -> bool:
    return isinstance(part, Tensor) and (part.is_floating_point() or part.is_complex())
