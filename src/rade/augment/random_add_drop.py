"""RADE as a method of the trainer; its ablations are other values of the same fields."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Labelled, Learner
from rade.control.rules import LARGEST_P
from rade.graph.graph import Graph
from rade.nn import GINConv
from rade.nn.backbones import Backbone
from rade.view.view import ComplementName, MomentsName, Rates, SamplingName, choose
from rade.wrapper.module import RADE

Cadence = Literal["batch", "epoch"]
# Fields that mean nothing where the rates are constant.
ADAPTATION = ("penalty", "rate_lr", "max_p", "adapt_every", "data_gradient", "pooling_rule")


class RandomAddDropLearner(Learner):
    """Trains the backbone inside `rade.RADE`, which perturbs, corrects and predicts by itself."""

    net: RADE

    @property
    def rates(self) -> Rates:
        """The present rates."""
        return self.net.rates


class AdaptiveLearner(RandomAddDropLearner):
    """The same with rates that follow every step, or the last one of an epoch."""

    def __init__(self, net: RADE, generator: torch.Generator, clean_evaluation: bool, every: Cadence) -> None:
        super().__init__(net, generator)
        self.clean_evaluation, self.every = clean_evaluation, every

    def adapts_after(self, last: bool) -> bool:
        """Whether the rates move after this step."""
        return last or self.every == "batch"

    def adapt(self, x: Tensor, graph: Graph, batch: Tensor | None, labelled: Labelled) -> Tensor | None:
        """One rate step; its clean logits are the evaluation logits if evaluation is clean."""
        rows, known, loss, weight = labelled.rows, labelled.known, labelled.loss, labelled.weight
        clean = self.net.adapt(x, graph, batch=batch, index=rows, mask=known, loss=loss, share=weight)
        return clean if self.clean_evaluation else None


@dataclass(frozen=True)
class RandomAddDrop:
    """Random Add-Drop Edge; the fields are those of `rade.RADE`, and after which steps the rates adapt."""

    variant: str = "of"
    p: float = 0.5
    rho: float = 0.5
    adaptive: bool = True
    penalty: float = 1.0
    rate_lr: float = 1e-3
    max_p: float = LARGEST_P
    adapt_every: Cadence = "batch"
    moments: MomentsName = "exact"
    sampling: SamplingName = "bernoulli"
    complement: ComplementName = "exact"
    samples: int = 256
    share_view: bool = True
    max_correction: float | str = "auto"
    pooling_rule: str = "exact"
    data_gradient: str = "training"
    inference: str = "expected"
    views: int = 8

    def __post_init__(self) -> None:
        choose("adapt_every", self.adapt_every, get_args(Cadence))
        # RADE checks the rest, but only once there is a model: find out before the data are loaded.
        self._model(GINConv(nn.Identity()), generator=torch.Generator())

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone inside `rade.RADE`."""
        pool = None if context.pool == "none" else context.pool
        common = {"task": context.task, "pool": pool, "head": net.head, "generator": context.generator}
        model = self._model(net, density=context.density, **common)
        if not self.adaptive:
            return RandomAddDropLearner(model, context.generator)
        clean = self.variant != "ofs" and self.inference == "expected"
        return AdaptiveLearner(model, context.generator, clean, self.adapt_every)

    def _model(self, net: nn.Module, **context: Any) -> RADE:
        options: dict[str, Any] = asdict(self) | context
        del options["adapt_every"]
        return RADE(net, **options)
