"""How good probabilities are, beside the score: log-loss and calibration, as they come and with a temperature."""

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from rade.train.task import Task

BINS = 15


COLDEST, HOTTEST = math.log(0.01), math.log(100.0)
Part = tuple[Tensor, Tensor]  # logits and labels of some rows


def quality(task: Task, test: Part, val: Part) -> dict[str, float | None]:
    """Mean negative log-likelihood and expected calibration error of test rows; None where one is not finite.

    As they come, which at the epoch of the best score says more of when training stopped than of the method, and
    scaled by the temperature that validation rows like best.
    """
    heat = temperature(task, *val)
    scaled = {f"scaled_{name}": value for name, value in _measured(task, test[0] / heat, test[1]).items()}
    return {**_measured(task, *test), "temperature": heat if math.isfinite(heat) else None, **scaled}


def _measured(task: Task, logits: Tensor, labels: Tensor) -> dict[str, float | None]:
    if not bool(torch.isfinite(logits).all()):
        return {"log_loss": None, "calibration_error": None}
    values = {"log_loss": _loss(task, logits, labels), "calibration_error": calibration_error(logits, labels)}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def temperature(task: Task, logits: Tensor, labels: Tensor) -> float:
    """T for which logits/T have the least loss (Guo et al. 2017), from 0.01 to 100; nan where logits are not finite.

    >>> from rade.data import load
    >>> logits = torch.tensor([[30.0, 0.0]]).repeat(4, 1)
    >>> round(30 / temperature(Task.of(load("csbm")), logits, torch.tensor([0, 0, 0, 1])), 2)  # three of four: log 3
    1.1
    """
    if not bool(torch.isfinite(logits).all()):
        return math.nan
    found = minimize_scalar(
        lambda log_heat: _loss(task, logits.double() / math.exp(log_heat), labels),
        bounds=(COLDEST, HOTTEST),
        method="bounded",
    )
    return math.exp(found.x)


def _loss(task: Task, logits: Tensor, labels: Tensor) -> float:
    return float(task.loss(logits, labels))


def calibration_error(logits: Tensor, labels: Tensor) -> float:
    """Σ_b n_b/n |accuracy_b − confidence_b| over BINS equal bins of confidence (Naeini et al. 2015; Guo et al. 2017).

    One class per row if labels are whole numbers; otherwise every known label is a decision of its own.

    >>> calibration_error(torch.zeros(4, 2), torch.tensor([0, 0, 1, 1]))
    0.0
    """
    confidence, right = _decided(logits.double(), labels)
    bins = (confidence * BINS).ceil().clamp(1, BINS).long() - 1
    gaps = torch.zeros(BINS, dtype=torch.double).index_add(0, bins, right - confidence)
    return float(gaps.abs().sum() / max(len(confidence), 1))


def _decided(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence of every decision, [k], and whether it is right, as 0 or 1."""
    if not labels.is_floating_point() and logits.size(1) > 1:
        confidence, decision = logits.softmax(1).max(1)
        return confidence.cpu(), (decision == labels.view(-1)).double().cpu()
    truth = labels.view_as(logits).double()
    known = ~truth.isnan()
    probability = logits.sigmoid()[known]
    right = (probability > 0.5) == (truth[known] > 0.5)
    return torch.maximum(probability, 1.0 - probability).cpu(), right.double().cpu()
