"""Fewer labels, or another share of them, than a data set's own split has."""

import torch
from torch import Tensor

from rade.data import Dataset, GraphList, Split
from rade.train.errors import SettingsError
from rade.train.seeds import generator
from rade.train.settings import Settings

STREAM = 6  # of a run's seed, apart from those of batches and views


def relabelled(dataset: Dataset, split: Split, settings: Settings, seed: int) -> Split:
    """The split of a run as its settings want it: `labels_per_class`, `train_items`, `train_share`, or its own.

    All are drawn from the run's seed, so methods that are compared see the same labels.
    """
    if settings.labels_per_class:
        labels = _labels(dataset)[split.train]
        kept = few_of_each(labels, settings.labels_per_class, dataset.name, generator(seed, STREAM))
        return Split(split.train[kept], split.val, split.test)
    if settings.train_items:
        return Split(some_of(split.train, settings.train_items, dataset.name, seed), split.val, split.test)
    if settings.train_share:
        if dataset.folds:
            raise SettingsError(f"{dataset.name} is split into folds; train_share is for data sets with one split")
        return shared_out(torch.cat([split.train, split.val, split.test]), settings.train_share, seed)
    return split


def few_of_each(labels: Tensor, count: int, name: str, draws: torch.Generator) -> Tensor:
    """The places of ``count`` labels of every class, ascending.

    >>> few_of_each(torch.tensor([0, 1, 0, 1]), 2, "toy", torch.Generator()).tolist()
    [0, 1, 2, 3]
    """
    order = torch.randperm(len(labels), generator=draws)
    found = []
    for label in torch.unique(labels).tolist():
        mine = order[labels[order] == label]
        if len(mine) < count:
            raise SettingsError(
                f"labels_per_class must be at most {len(mine)} on {name}, whose class {label} has no more labels for "
                f"training, got {count}"
            )
        found.append(mine[:count])
    return torch.cat(found).sort().values


def some_of(items: Tensor, count: int, name: str, seed: int) -> Tensor:
    """``count`` of the items, ascending; a larger count with the same seed keeps them."""
    if count > len(items):
        raise SettingsError(f"train_items must be at most {len(items)} on {name}, which has no more, got {count}")
    order = torch.randperm(len(items), generator=generator(seed, STREAM))
    return items[order[:count]].sort().values


def shared_out(items: Tensor, share: float, seed: int) -> Split:
    """``share`` of the items for training, the rest half for validation and half for test."""
    order = items[torch.randperm(len(items), generator=generator(seed, STREAM))]
    train = int(share * len(items))
    val = (len(items) - train) // 2
    parts = torch.split(order, [train, val, len(items) - train - val])
    return Split(*(part.sort().values for part in parts))


def _labels(dataset: Dataset) -> Tensor:
    """The class of every node or graph."""
    if dataset.loss != "multiclass":
        raise SettingsError(f"labels_per_class is for classes, which {dataset.name} has not; train_items takes any")
    if isinstance(dataset.graphs, GraphList):
        return dataset.graphs.tables.y.long().view(-1)
    labels: Tensor = dataset.graphs[0].y
    return labels
