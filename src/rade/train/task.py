"""The loss and the score of a task."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rade.data import Dataset
from rade.train.metrics import METRICS, Metric


def multiclass_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with one class per row; logits: [k, C], labels: [k]."""
    return functional.cross_entropy(logits, labels.view(-1))


def binary_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the known 0/1 labels; unknown ones are NaN. logits: [k, T], labels: [k] or [k, T]."""
    labels = labels.view_as(logits).to(logits.dtype)
    known = ~torch.isnan(labels)
    return functional.binary_cross_entropy_with_logits(logits[known], labels[known])


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "multiclass": multiclass_loss,
    "binary": binary_loss,
    "multilabel": binary_loss,
}


@dataclass(frozen=True)
class Task:
    """What is minimised and what is reported."""

    name: str
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Metric
    outputs: int

    @staticmethod
    def of(dataset: Dataset) -> "Task":
        """The task of a data set: a binary one has a single logit."""
        outputs = 1 if dataset.loss == "binary" else dataset.classes
        return Task(dataset.loss, LOSSES[dataset.loss], METRICS[dataset.metric], outputs)
