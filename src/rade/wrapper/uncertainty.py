"""Which predictions hang on few edges: the spread of logits over views, and how often a view changes its mind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rade.control.readout import Readout
from rade.nn.base import convolutions
from rade.nn.modes import evaluating
from rade.nn.output import logits_of
from rade.view.law import Law
from rade.view.randomness import returning
from rade.view.sampling import draw
from rade.wrapper.clean import clean_pass
from rade.wrapper.running import Running

OFTEN = 0.25


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """A model's predictions under random edges at some rates; rows are nodes, or graphs of a pooling model.

    Attributes:
        logits: [k, C] those of inference.
        std: [k, C] standard deviation of each logit over views of the last convolution, in closed form (Eq. 12), given
            what comes into it; exact for sums, while means and degrees also covary within a node, which it leaves out.
            The sampled one where there is no closed form, which ``note`` then says.
        sampled_std: [k, C] the same by sampling, through all layers.
        flips: [k] share of the sampled views whose prediction differs from that of inference: another class, or
            another side of 0 for any logit of a sigmoid; nan for regression.
        views: how many views were sampled.
        note: why ``std`` is no closed form, "" where it is.
    """

    logits: Tensor
    std: Tensor
    sampled_std: Tensor
    flips: Tensor
    views: int
    note: str = ""

    @property
    def fragile(self) -> Tensor:
        """[k] rows in the order in which they hang on single edges: most often changed first, ties by the spread."""
        share = torch.where(self.flips.isnan(), torch.zeros_like(self.flips), self.flips)
        by_spread = self.sampled_std.amax(1).argsort(descending=True, stable=True)
        return by_spread[share[by_spread].argsort(descending=True, stable=True)]

    def __str__(self) -> str:
        often = int((self.flips > OFTEN).sum())
        share = f"{100 * float(self.flips.mean()):.1f} % of views change a prediction"
        return (
            f"{len(self.flips)} predictions, {self.views} views: {share}, {often} predictions change in more than a "
            f"quarter of them; a logit's standard deviation is {float(self.std.median()):.2g} in the median"
        )


def uncertainty(running: Running, law: Law, readout: Readout, predict: Callable[[], Any], views: int) -> Uncertainty:
    """In evaluation mode, so that only views are random; the generator goes on as if nothing had been drawn."""
    if views < 2:
        raise ValueError(f"a standard deviation needs at least 2 views, got views = {views}")
    with evaluating(running.model), torch.no_grad(), returning(law.generator):
        mean = _matrix(predict())
        flips, sampled = _sampled(running, law, readout, mean, views)
        closed, note = _closed_form(running, law, readout)
    return Uncertainty(mean, sampled if closed is None else closed, sampled, flips, views, note)


def _sampled(running: Running, law: Law, readout: Readout, mean: Tensor, views: int) -> tuple[Tensor, Tensor]:
    """Shares of views that decide otherwise, and deviations around the views' own mean."""
    decided = _decisions(mean, readout)
    changed = torch.zeros_like(decided[:, 0], dtype=torch.double)
    total, squares = torch.zeros_like(mean, dtype=torch.double), torch.zeros_like(mean, dtype=torch.double)
    for _ in range(views):
        seen = _matrix(running(draw(law)))
        changed += (_decisions(seen, readout) != decided).any(1)
        away = (seen - mean).double()  # relative to inference, lest large logits cancel
        total += away
        squares += away.square()
    variance = (squares - total.square() / views).clamp(min=0) / (views - 1)
    flips = torch.full_like(changed, torch.nan) if readout.task == "regression" else changed / views
    return flips.to(mean.dtype), variance.sqrt().to(mean.dtype)


def _closed_form(running: Running, law: Law, readout: Readout) -> tuple[Tensor | None, str]:
    """√Var(δ), or why there is none."""
    bent = [f"{type(conv).__name__}({conv.bends})" for conv in convolutions(running.model).values() if conv.bends]
    if bent:
        return None, f"{bent[-1]} is not linear in what it sums, so its spread has no closed form here"
    try:
        clean = clean_pass(running, law.graph, readout)
    except ValueError as refusal:
        return None, " ".join(str(refusal).split())
    rows = torch.arange(clean.logits.shape[0], device=clean.logits.device)
    return readout.variance(clean.sent, law, rows).total.detach().sqrt(), ""


def _decisions(logits: Tensor, readout: Readout) -> Tensor:
    """[k, 1] the class, or [k, C] the side of 0."""
    if readout.is_softmax and logits.shape[1] > 1:
        return logits.argmax(1, keepdim=True)
    return logits > 0


def _matrix(output: Any) -> Tensor:
    logits = logits_of(output)
    return logits if logits.dim() == 2 else logits[:, None]
