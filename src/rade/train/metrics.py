"""Scores of predictions, each a number in [0, 1] and better when larger."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Metric = Callable[[Tensor, Tensor], float]


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest logit is the label; a single logit per row is thresholded at 0."""
    return float((_decide(logits) == labels.view(-1)).double().mean())


def micro_f1(logits: Tensor, labels: Tensor) -> float:
    """F1 over all (row, label) decisions; with one label per row it equals the accuracy.

    logits: [k, C]; labels: [k] (one class per row) or [k, C] (0/1, NaN where unknown).
    """
    if labels.dim() == 1:
        return accuracy(logits, labels)
    known = ~torch.isnan(labels)
    positive, truth = (logits > 0)[known], labels[known] > 0
    wrong = (positive != truth).sum()
    hits = 2 * (positive & truth).sum()
    return float(hits / (hits + wrong)) if hits + wrong > 0 else 1.0


def roc_auc(logits: Tensor, labels: Tensor) -> float:
    """Area under the ROC curve, averaged over the tasks in which both classes occur (OGB's rule)."""
    from sklearn.metrics import roc_auc_score

    return _mean_over_tasks(roc_auc_score, logits, labels)


def average_precision(logits: Tensor, labels: Tensor) -> float:
    """Average precision, averaged over the tasks in which both classes occur (OGB's rule)."""
    from sklearn.metrics import average_precision_score

    return _mean_over_tasks(average_precision_score, logits, labels)


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "micro-f1": micro_f1,
    "roc-auc": roc_auc,
    "average-precision": average_precision,
}


def _decide(logits: Tensor) -> Tensor:
    if logits.dim() == 1 or logits.size(1) == 1:
        return (logits.view(-1) > 0).long()
    return logits.argmax(dim=1)


def _mean_over_tasks(score: Callable[..., float], logits: Tensor, labels: Tensor) -> float:
    """Mean of `score` over columns, without the unknown labels (NaN) and the columns of one class."""
    scores = logits.detach().double().cpu().reshape(len(logits), -1).numpy()
    truth = labels.detach().double().cpu().reshape(len(labels), -1).numpy()
    values = []
    for column in range(truth.shape[1]):
        known = ~np.isnan(truth[:, column])
        if len(np.unique(truth[known, column])) == 2:
            values.append(score(truth[known, column], scores[known, column]))
    if not values:
        raise ValueError("a ranking score needs a task with positive and negative labels, and none has both")
    return float(np.mean(values))
