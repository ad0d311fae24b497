"""What a model in evaluation mode aggregates over: values that say how to predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_map

from rade.graph.adjacency import Adjacency
from rade.memory import Memo
from rade.view.law import Law
from rade.view.rates import Rates
from rade.view.sampling import draw
from rade.view.trust import Trust
from rade.view.view import MeanView

Run = Callable[[Adjacency], Any]
DENOISED_KEPT = 2  # who tries many rates on a graph must not keep an operator of each


@dataclass(frozen=True)
class Inference(ABC):
    """How to predict.

    Attributes:
        rates: rates to predict at, in place of the model's own.
    """

    rates: Rates | None = field(default=None, kw_only=True)

    @abstractmethod
    def __call__(self, run: Run, law: Law) -> Any:
        """The prediction; ``run`` is a forward pass of the model on any adjacency."""


@dataclass(frozen=True)
class Expected(Inference):
    """One pass on the mean over all views: clean for RADE-OF, with the expected additions for RADE-OFS."""

    def __call__(self, run: Run, law: Law) -> Any:
        return run(MeanView(law))


@dataclass(frozen=True)
class Denoised(Inference):
    """One pass on a graph that has ``noise.p`` of its real edges missing and ``noise.q`` of its other pairs spurious.

    The contribution of spurious edges is taken off in the mean and that of missing ones made up for; on a graph
    without noise it is the clean aggregation. Works for models that were never trained with RADE:
    ``RADE(net, rule=Constant(0, 0), inference=Denoised(noise=Rates(0, 1e-4)))``. `rade.estimate_noise` finds the rates,
    and ``trust`` in single edges of one graph, which attention (GAT) needs to gain by it.
    """

    noise: Rates = Rates(0.0, 0.0)  # noqa: RUF009 - a frozen value
    trust: Trust = Law.trust

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Rates):
            raise TypeError(f"noise must be a rade.Rates, such as rade.Rates(p=0.0, q=1e-4), got {self.noise!r}")

    @staticmethod
    def of(noise: Rates | Denoised) -> Denoised:
        """What undoes noise that is given as rates alone, or with trust in the single edges of a graph."""
        if not isinstance(noise, Rates | Denoised):
            raise TypeError(f"noise must be a rade.Rates or a rade.Denoised, got {noise!r}")
        return Denoised(noise) if isinstance(noise, Rates) else noise

    def __call__(self, run: Run, law: Law) -> Any:
        kept = law.memo.once("denoised", lambda: Memo(DENOISED_KEPT))
        return run(MeanView(kept.once(self, lambda: replace(law, noise=self.noise, trust=self.trust))))


@dataclass(frozen=True)
class Ensemble(Inference):
    """The mean output over ``size`` sampled views."""

    size: int = 8

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an ensemble needs at least one view, got size = {self.size}")

    def __call__(self, run: Run, law: Law) -> Any:
        total = run(draw(law))
        for _ in range(self.size - 1):
            total = tree_map(_sum, total, run(draw(law)))
        return tree_map(lambda part: part / self.size if isinstance(part, Tensor) else part, total)


def _sum(one: Any, other: Any) -> Any:
    """Of tensors; what else a model returns, None say, is that of the first view."""
    return one + other if isinstance(one, Tensor) else one
