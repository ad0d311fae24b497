"""What is to be learned: a task with its loss and score, and a problem with its graphs, labels and splits.

A data set of the catalogue is the problem of a run by `problem_of`; a user's own data by `rade.comparison.problems`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rade.data import Dataset, GraphList, Split
from rade.errors import SettingsError

if TYPE_CHECKING:
    from rade.train.settings import Settings

Loss = Callable[[Tensor, Tensor], Tensor]
Metric = Callable[[Tensor, Tensor], float]
Outputs = tuple[Tensor, Tensor]  # logits and labels, row by row
LABELS = 6  # a stream of a run's seed, apart from those of batches and views


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


def problem_of(dataset: Dataset, settings: Settings) -> Problem:
    """The problem of a data set; settings that do not fit it are refused."""
    if (settings.pool == "none") != (dataset.level == "node"):
        needed = "none" if dataset.level == "node" else "sum or mean"
        raise SettingsError(
            f"{dataset.name} is a data set of {dataset.level}s: pool must be {needed}, got {settings.pool!r}"
        )
    if dataset.level == "node" and settings.batch_size > 0 and len(settings.fanouts) != settings.layers:
        raise SettingsError(
            f"{settings.layers} layers need as many fan-outs, got {list(settings.fanouts)}; set --fanouts"
        )
    return Problem(
        dataset.name,
        dataset.level,
        dataset.graphs,
        labels_of(dataset),
        partial(split_for, dataset, settings),
        Task(dataset.loss, LOSSES[dataset.loss], METRICS[dataset.metric]),
        dataset.metric,
        dataset.density,
        dataset.origin,
        dataset.folds,
    )


def labels_of(dataset: Dataset) -> Tensor:
    """Of all nodes, or of all graphs."""
    if not isinstance(dataset.graphs, GraphList):
        labels: Tensor = dataset.graphs[0].y
        return labels
    labels = dataset.graphs.tables.y
    return labels if labels.is_floating_point() else labels.long()


def split_for(dataset: Dataset, settings: Settings, run: int) -> Split:
    """The split or fold of one run, with the labels that its settings choose; its parts are not empty.

    Labels are drawn from the run's seed, so methods that are compared see the same.
    """
    if 0 < dataset.folds <= run:
        raise SettingsError(f"data set {dataset.name} has {dataset.folds} folds; ask for at most as many runs")
    split = relabelled(dataset, dataset.split(run, settings.seed), settings, settings.seed + run)
    for name, items in {"train": split.train, "validation": split.val, "test": split.test}.items():
        if len(items) == 0:
            raise SettingsError(
                f"data set {dataset.name} has no {name} part in this split; training needs train, validation and test"
            )
    return split


def relabelled(dataset: Dataset, split: Split, settings: Settings, seed: int) -> Split:
    """With `labels_per_class` or `train_items` of the training part, or `train_share` of all, as the settings say.

    The rest of all is half for validation and half for test. A larger number with the same seed keeps the items.
    """
    each, count, share = settings.labels_per_class, settings.train_items, settings.train_share
    pool = torch.cat([split.train, split.val, split.test]) if share else split.train
    places = torch.randperm(len(pool), generator=generator(seed, LABELS))
    if each:
        if dataset.loss != "multiclass":
            raise SettingsError(f"labels_per_class needs classes, which {dataset.name} lacks; train_items takes any")
        labels = labels_of(dataset).view(-1)[pool][places]
        classes, counts = torch.unique(labels, return_counts=True)
        if each > int(counts.min()):
            raise SettingsError(
                f"labels_per_class must be at most {int(counts.min())} on {dataset.name}, whose class "
                f"{int(classes[counts.argmin()])} has no more labels for training, got {each}"
            )
        kept = torch.cat([places[labels == label][:each] for label in classes])
        return replace(split, train=pool[kept.sort().values])
    if count:
        if count > len(pool):
            raise SettingsError(f"train_items must be at most {len(pool)} on {dataset.name}, got {count}")
        return replace(split, train=pool[places[:count]].sort().values)
    if share:
        if dataset.folds:
            raise SettingsError(f"{dataset.name} is split into folds; train_share is for data sets with one split")
        train = int(share * len(pool))
        parts = pool[places].tensor_split((train, train + (len(pool) - train) // 2))
        return Split(*(part.sort().values for part in parts))
    return split
