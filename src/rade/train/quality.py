"""How good probabilities are, beside the score: log-loss and calibration."""

import math

import torch
from torch import Tensor

from rade.train.task import Task

BINS = 15


def quality(task: Task, logits: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Mean negative log-likelihood and expected calibration error of some rows; None where one is not finite."""
    if not bool(torch.isfinite(logits).all()):
        return {"log_loss": None, "calibration_error": None}
    values = {"log_loss": float(task.loss(logits, labels)), "calibration_error": calibration_error(logits, labels)}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


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
