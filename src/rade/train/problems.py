"""A data set as the problem of a run: its own splits or folds, with the labels that the settings choose."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rade.data import Dataset, GraphList, Split
from rade.errors import SettingsError
from rade.train.tasks import LOSSES, METRICS, Problem, Task, generator

if TYPE_CHECKING:
    from rade.train.settings import Settings

LABELS = 6  # a stream of a run's seed, apart from those of batches and views


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
