"""RADE as a method of the trainer; its ablations are other values of the same fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from rade.augment.base import Context, Learner, Method
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.rules import GradNorm, Rule
from rade.errors import choose
from rade.graph.graph import Graph
from rade.nn.backbones import Backbone
from rade.nn.rows import Wanted
from rade.view.law import Correction, Law, Variant, Views
from rade.view.rates import Rates
from rade.wrapper.inference import Denoised, Expected, Inference
from rade.wrapper.module import RADE
from rade.wrapper.settings import flat, from_flat

Cadence = Literal["batch", "epoch"]
# What the task decides, and what means nothing where the rates are constant.
OWN = ("adapt_every", "noise_trust")  # of the method, beside the values of `RADE`
OF_THE_TASK = ("task", "pool", "head")
TRUSTED_BY = ("", "features", "common-neighbors", "degrees")
OF_ADAPTATION = ("data_gradient", "pooling_rule", "adapt_every")


class RandomAddDropLearner(Learner):
    """Trains the backbone inside `rade.RADE`, which perturbs, corrects and predicts by itself."""

    net: RADE

    def __init__(self, net: RADE, generator: torch.Generator, every: Cadence, noisy: bool = False) -> None:
        super().__init__(net, generator)
        self.every = every
        # The logits of a rate step are those of the graph as it is: they are the evaluation logits if evaluation is.
        self.clean_evaluation = not (net.variant.keeps_additions or noisy) and type(net.inference) is Expected

    @property
    def rates(self) -> Rates:
        return self.net.rates

    def at(self, factor: float) -> Learner:
        """Predict with ``factor`` times as many additions per pair of nodes."""
        return ScaledLearner(self, factor)

    def variance_shares(self, x: Tensor, graph: Graph, batch: Tensor | None) -> dict[str, float]:
        """Those of the last convolution, at the present rates (Prop. 3)."""
        last = self.net.explain(x, graph, batch=batch)[-1]
        shares = {"drop": last.drop_variance_share, "add": last.add_variance_share}
        return {name: share for name, share in shares.items() if math.isfinite(share)}

    def adapts_after(self, last: bool) -> bool:
        """Whether the rates move after this step."""
        return self.net.rule.adapts and (last or self.every == "batch")

    def adapt(
        self, x: Tensor, graph: Graph, batch: Tensor | None, wanted: Wanted | None, labelled: Labelled
    ) -> Tensor | None:
        """One rate step; its clean logits are the evaluation logits if evaluation is clean."""
        # The variance of a logit hangs on what every node could send.
        wanted = None if wanted is None else Wanted(wanted.rows, everybody=True)
        clean = self.net.adapt(x, graph, batch=batch, wanted=wanted, labelled=labelled)
        return clean if self.clean_evaluation else None


class ScaledLearner(Learner):
    """A learner that predicts at q times a factor; for graphs of another size than those of training."""

    def __init__(self, learner: RandomAddDropLearner, factor: float) -> None:
        super().__init__(learner.net, learner.generator)
        self.factor = factor

    def forward(self, x: Tensor, graph: Graph, batch: Tensor | None = None, wanted: Wanted | None = None) -> Tensor:
        model: RADE = self.net  # type: ignore[assignment]
        logits: Tensor = model.at(model.rates.scaled(self.factor))(x, graph, batch=batch, wanted=wanted)
        return logits


@dataclass(frozen=True)
class RandomAddDrop(Method):
    """Random Add-Drop Edge: the values of `rade.RADE`, and after which steps the rates adapt.

    Its settings have the flat names of `rade.wrapper.settings`; those that the chosen values lack are not offered.
    """

    variant: Variant | str = Variant.OF
    rule: Rule = GradNorm()  # noqa: RUF009 - a frozen value
    views: Views = Views()  # noqa: RUF009
    correction: Correction = Correction()  # noqa: RUF009
    readout: Readout = Readout()  # noqa: RUF009
    inference: Inference = Expected()  # noqa: RUF009
    noise: Rates | Denoised = Law.noise  # of the data's own graph
    noise_trust: str = ""  # the similarity by which its edges are trusted; empty: all alike
    adapt_every: Cadence = "batch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "variant", Variant(self.variant))
        choose("adapt_every", self.adapt_every, get_args(Cadence))
        choose("noise_trust", self.noise_trust, TRUSTED_BY)
        self.rule.check(self.correction)
        self.rule.check_views(self.views)

    @property
    def options(self) -> dict[str, Any]:
        """The flat settings and their present values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        found = {"variant": Variant(self.variant).value, **flat(values)}
        found |= {name: getattr(self, name) for name in OWN}
        hidden = OF_THE_TASK if self.rule.adapts else OF_THE_TASK + OF_ADAPTATION
        return {name: value for name, value in found.items() if name not in hidden}

    def configured(self, options: Mapping[str, Any]) -> RandomAddDrop:
        """The same method with other flat settings."""
        own = {name: value for name, value in options.items() if name in ("variant", *OWN)}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values = {name: value for name, value in values.items() if name not in ("variant", *OWN)}
        return replace(self, **own, **from_flat(values, {k: v for k, v in options.items() if k not in own}))

    def wrap(self, net: Backbone, context: Context) -> Learner:
        """The backbone inside `rade.RADE`."""
        model = self._inside(net, context, "head")
        return RandomAddDropLearner(model, context.generator, self.adapt_every, noisy=self.noise != Law.noise)

    def around(self, net: nn.Module, context: Context) -> RADE:
        """Any PyG model inside `rade.RADE`, which finds its head."""
        return self._inside(net, context, None)

    def _inside(self, net: nn.Module, context: Context, head: str | None) -> RADE:
        pool: Any = None if context.pool == "none" else context.pool
        task: Any = context.task
        noise = self.noise
        if self.noise_trust and isinstance(noise, Rates):
            noise = Denoised(noise, context.trust(self.noise_trust, noise))
        return RADE(
            net,
            self.variant,
            rule=self.rule,
            views=self.views,
            correction=self.correction,
            readout=replace(self.readout, task=task, pool=pool, head=head),
            inference=self.inference,
            noise=noise,
            density=context.density,
            generator=context.generator,
        )
