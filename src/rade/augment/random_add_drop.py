"""RADE as a method of the trainer; its ablations are other values of the same fields."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from rade.augment.base import Context, Learner
from rade.graph import Graph
from rade.module import RADE
from rade.nn.models import Backbone
from rade.view import ComplementName, Correction, MomentsName, Rates, SamplingName


class RandomAddDropLearner(Learner):
    """Trains the backbone inside `rade.RADE`, which perturbs, corrects and predicts by itself."""

    net: RADE

    def __init__(self, net: RADE, generator: torch.Generator, free_evaluation: bool) -> None:
        super().__init__(net, generator)
        self.free_evaluation = free_evaluation

    def adapt(
        self, x: Tensor, graph: Graph, batch: Tensor | None, index: Tensor | None, mask: Tensor | None
    ) -> Tensor | None:
        """One rate step; without additions at inference its clean logits are the evaluation logits."""
        clean = self.net.adapt(x, graph, batch=batch, index=index, mask=mask)
        return clean if self.free_evaluation else None

    @property
    def rates(self) -> Rates:
        """The present rates."""
        return self.net.rates


@dataclass(frozen=True)
class RandomAddDrop:
    """Random Add-Drop Edge; the fields are those of `rade.RADE`."""

    variant: str = "of"
    p: float = 0.5
    rho: float = 0.5
    adaptive: bool = True
    penalty: float = 1.0
    rate_lr: float = 1e-3
    moments: MomentsName = "exact"
    sampling: SamplingName = "bernoulli"
    complement: ComplementName = "exact"
    share_view: bool = True
    data_gradient: str = "training"

    def __post_init__(self) -> None:
        Rates(self.p, 0.0)
        Correction(self.variant, self.moments, self.complement)
        if not self.rho >= 0:
            raise ValueError(f"rho, the add rate over the density, must not be negative, got {self.rho}")

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone inside `rade.RADE`."""
        pool = {"none": None}.get(context.pool, context.pool)
        model = RADE(
            net,
            **asdict(self),
            density=context.density,
            task=context.task,
            pool=pool,
            head=net.head,
            generator=context.generator,
        )
        return RandomAddDropLearner(model, context.generator, self.adaptive and self.variant != "ofs")
