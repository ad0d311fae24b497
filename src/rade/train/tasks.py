"""What is to be learned: a problem with its graphs, labels and splits, and a task with its loss and score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rade.data import Split

Loss = Callable[[Tensor, Tensor], Tensor]
Metric = Callable[[Tensor, Tensor], float]
Outputs = tuple[Tensor, Tensor]  # logits and labels, row by row


def derive(seed: int, *keys: int) -> int:
    """A seed for the stream named by `keys`: equal for equal arguments, unrelated otherwise.

    >>> derive(0, 1) == derive(0, 1), derive(0, 1) == derive(1, 0)
    (True, False)
    """
    return int(np.random.SeedSequence([seed, *keys]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(seed: int, *keys: int, device: str = "cpu") -> torch.Generator:
    """A torch generator for the stream named by `keys`."""
    return torch.Generator(device).manual_seed(derive(seed, *keys))


def multiclass_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with one class per row; logits: [k, C], labels: [k]."""
    return functional.cross_entropy(logits, labels.view(-1))


def binary_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the known 0/1 labels; unknown ones are NaN. logits: [k, T], labels: [k] or [k, T]."""
    labels = labels.view_as(logits).to(logits.dtype)
    known = ~torch.isnan(labels)
    return functional.binary_cross_entropy_with_logits(logits[known], labels[known])


def squared_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error."""
    return functional.mse_loss(outputs, labels.view_as(outputs).to(outputs.dtype))


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest logit is the label; a single logit per row is thresholded at 0."""
    single = logits.dim() == 1 or logits.size(1) == 1
    decided = (logits.view(-1) > 0).long() if single else logits.argmax(dim=1)
    return float((decided == labels.view(-1)).double().mean())


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


def r2(outputs: Tensor, labels: Tensor) -> float:
    """1 − squared error over variance: 1 is perfect, 0 is the mean of the labels."""
    labels = labels.view_as(outputs).double()
    left = (outputs.double() - labels).square().sum()
    return float(1 - left / (labels - labels.mean(0)).square().sum())


def ranking(score: str, logits: Tensor, labels: Tensor) -> float:
    """A score of scikit-learn's, averaged over the tasks in which both classes occur (OGB's rule); unknown is NaN."""
    from sklearn import metrics

    scores = logits.detach().double().cpu().reshape(len(logits), -1).numpy()
    truth = labels.detach().double().cpu().reshape(len(labels), -1).numpy()
    values = []
    for column in range(truth.shape[1]):
        known = ~np.isnan(truth[:, column])
        if len(np.unique(truth[known, column])) == 2:
            values.append(getattr(metrics, score)(truth[known, column], scores[known, column]))
    if not values:
        raise ValueError("a ranking score needs a task with positive and negative labels, and none has both")
    return float(np.mean(values))


LOSSES: dict[str, Loss] = {
    "multiclass": multiclass_loss,
    "binary": binary_loss,
    "multilabel": binary_loss,
    "regression": squared_loss,
}
METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "micro-f1": micro_f1,
    "roc-auc": partial(ranking, "roc_auc_score"),
    "average-precision": partial(ranking, "average_precision_score"),
    "r2": r2,
}


@dataclass(frozen=True)
class Task:
    """What is minimised and what is reported."""

    name: str
    loss: Loss
    metric: Metric


@dataclass(frozen=True, eq=False)
class Problem:
    """Graphs with labels, split by seed, and the task on them: a data set of the catalogue or a user's own data.

    Attributes:
        graphs: one PyG ``Data`` whose nodes have labels, or many with a label each (``level`` says which).
        labels: of all nodes or graphs.
        split: which of them are for what, by the number of the run.
        metric: the score, in a word.
        density: edges over pairs of nodes, of all graphs together.
        origin: what tells these data from others: name, files and options, as in a record.
        folds: of cross-validation, 0 where runs are no folds.
        ratio: test over training items where splits are drawn from the same items, else 0.
    """

    name: str
    level: str
    graphs: Any
    labels: Tensor
    split: Callable[[int], Split]
    task: Task
    metric: str
    density: float
    origin: Mapping[str, Any] = field(default_factory=dict)
    folds: int = 0
    ratio: float = 0.0
