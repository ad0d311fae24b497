"""How noisy a model's logits are under its views: sampled, and as two formulas have it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from rade.control.all_layers import AllLayers
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.recording import Recording
from rade.control.regulariser import regulariser
from rade.nn.modes import evaluating
from rade.view.law import Law
from rade.view.randomness import returning
from rade.view.sampling import draw
from rade.view.view import MeanView
from rade.wrapper.clean import clean_pass
from rade.wrapper.rounded import Rounded
from rade.wrapper.running import Running


@dataclass(frozen=True, repr=False)
class NoiseReport(Rounded):
    """R = 1/(2|B|) Σ w Var(δ) of a model at its present rates, three times.

    ``sampled`` is the truth to within ``error`` (one standard error over groups of views); ``all_layers`` the formula
    through all layers; ``last_layer`` the paper's, which drops the activations behind the last aggregation, and is nan
    where the logits are no linear map of it. ``bias`` is the same sum of squared differences between the mean over
    views and the prediction, over ``sampled``.
    """

    sampled: float
    error: float
    all_layers: float
    last_layer: float
    bias: float

    def asdict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return asdict(self)


def noise_report(
    running: Running, law: Law, readout: Readout, labelled: Labelled, views: int, signs: int
) -> NoiseReport:
    """Sample ``views`` views and set both formulas beside them; only views are random, and the generator returns."""
    if views < 8:
        raise ValueError(f"a variance needs at least 8 views, got {views}")
    with evaluating(running.model), torch.enable_grad(), returning(law.generator):
        recorded = Recording(MeanView(law))
        logits = running(recorded)
        scores = readout.scores(logits, law.graph)
        rows = labelled.chosen(scores.shape[0], scores.device)
        weight = labelled.masked(readout.curvature(scores[rows], rows)).detach()
        modelled = []
        for _ in range(signs):
            training = Recording(draw(law))
            with torch.no_grad():
                running(training)
            coin = torch.randint(2, weight.shape, generator=law.generator, device=weight.device)
            form = weight.sqrt() * (2 * coin - 1)
            found = AllLayers(scores[rows], recorded.calls, training.calls).variance(law, form)
            modelled.append(float(found[0] + found[1]) / (2 * len(rows)))
        sampled, error, bias = _sampled(running, law, readout, rows, weight, scores[rows].detach(), views)
        return NoiseReport(sampled, error, sum(modelled) / signs, _last_layer(running, law, readout, labelled), bias)


@torch.no_grad()
def _sampled(
    running: Running, law: Law, readout: Readout, rows: Tensor, weight: Tensor, mean: Tensor, views: int
) -> tuple[float, float, float]:
    seen = torch.stack([readout.scores(running(draw(law)), law.graph)[rows] for _ in range(views)])
    groups = [part for part in seen.chunk(min(8, views // 2)) if len(part) > 1]
    found = torch.stack([0.5 * (weight * part.var(0)).sum() / len(rows) for part in groups]).double()
    total = 0.5 * (weight * seen.var(0)).sum() / len(rows)
    bias = 0.5 * (weight * (seen.mean(0) - mean).square()).sum() / len(rows)
    return float(total), float(found.std() / len(groups) ** 0.5), float(bias / total.clamp(min=1e-30))


def _last_layer(running: Running, law: Law, readout: Readout, labelled: Labelled) -> float:
    try:
        clean = clean_pass(running, law.graph, readout)
    except ValueError:
        return float("nan")
    return float(regulariser(clean, readout, labelled, law, ())(law.rates).detach())
