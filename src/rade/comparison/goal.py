"""What is minimised and what is reported: told from the labels and the outputs, or as the user says."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rade.comparison.training import Metric, Training
from rade.train.errors import unknown
from rade.train.metrics import METRICS
from rade.train.task import LOSSES, Task


def squared_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error."""
    return mse_loss(outputs, labels.view_as(outputs).to(outputs.dtype))


def r2(outputs: Tensor, labels: Tensor) -> float:
    """1 − squared error over variance: 1 is perfect, 0 is the mean of the labels."""
    labels = labels.view_as(outputs).double()
    left = (outputs.double() - labels).square().sum()
    return float(1 - left / (labels - labels.mean(0)).square().sum())


_LOSSES = {**LOSSES, "regression": squared_loss}
_METRICS: dict[str, Metric] = {**METRICS, "r2": r2}
_USUAL = {"multiclass": "accuracy", "binary": "accuracy", "multilabel": "micro-f1", "regression": "r2"}


def goal(training: Training, outputs: Tensor, labels: Tensor) -> Task:
    """Loss and score for outputs [k, C] and labels [k] or [k, C]."""
    name = _told(outputs, labels) if training.task == "auto" else training.task
    _check_shapes(name, outputs, labels)
    metric = _USUAL[name] if training.metric == "auto" else training.metric
    if isinstance(metric, str) and metric not in _METRICS:
        raise unknown("metric", metric, _METRICS)
    return Task(name, _LOSSES[name], _METRICS[metric] if isinstance(metric, str) else metric, outputs.shape[-1])


def metric_name(training: Training, task: Task) -> str:
    """The score, in a word."""
    if isinstance(training.metric, str):
        return _USUAL[task.name] if training.metric == "auto" else training.metric
    return str(getattr(training.metric, "__name__", type(training.metric).__name__))


def _told(outputs: Tensor, labels: Tensor) -> str:
    """The task, where labels leave no doubt."""
    known = labels[~torch.isnan(labels)] if labels.is_floating_point() else labels
    zeros_and_ones = bool(((known == 0) | (known == 1)).all())
    single = outputs.dim() == 1 or outputs.shape[1] == 1
    if labels.is_floating_point() and not zeros_and_ones:
        raise ValueError("the labels are real numbers: say Training(task='regression')")
    if single and zeros_and_ones:
        return "binary"
    if labels.dim() == 2 and labels.shape == outputs.shape and zeros_and_ones:
        return "multilabel"
    return "multiclass"


def _check_shapes(task: str, outputs: Tensor, labels: Tensor) -> None:
    per_row = labels.numel() == outputs.shape[0] and not labels.is_floating_point()
    fits = per_row and outputs.dim() == 2 if task == "multiclass" else labels.numel() == outputs.numel()
    if not fits:
        wanted = "one whole number per row" if task == "multiclass" else "one label per output"
        raise ValueError(
            f"a {task} task needs {wanted}, got labels {list(labels.shape)} ({labels.dtype}) for outputs "
            f"{list(outputs.shape)}; say Training(task=...), or shape data.y accordingly"
        )
    if task == "multiclass" and int(labels.min()) < 0:
        raise ValueError(
            f"labels of training rows go down to {int(labels.min())}, and classes are counted from 0; leave rows "
            "without a label out of the split"
        )
    if task == "multiclass" and int(labels.max()) >= outputs.shape[1]:
        raise ValueError(
            f"labels go up to {int(labels.max())}, but the model has {outputs.shape[1]} outputs; it needs one per class"
        )
