"""What a comparison is about: data of the user's own, or one of `rade.data`, which brings splits, task and score."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rade.comparison.problems import Graphs, Nodes, Problem, problem_of, rows_of
from rade.comparison.training import Training
from rade.data.dataset import Dataset
from rade.data.splits import RandomSplit, Split, Splits


@dataclass(frozen=True, eq=False)
class OwnSplits(Problem):
    """Data with the splits of its data set: seed k takes that of run k."""

    targets: Tensor
    splits: Splits
    pooled: float  # the data set's density
    name: str

    @property
    def labels(self) -> Tensor:
        """As the data set has them."""
        return self.targets

    @property
    def density(self) -> float:
        """The data set's."""
        return self.pooled

    @property
    def ratio(self) -> float:
        """Random splits share most of their training items; official ones are what they are."""
        first = self.split(0)
        return len(first.test) / len(first.train) if isinstance(self.splits, RandomSplit) else 0.0

    def split(self, seed: int) -> Split:
        """That of one run."""
        return self.splits.split(seed)

    @property
    def fingerprint(self) -> str:
        """Of the data, and whose it is."""
        return f"{self.name} {super().fingerprint}"


@dataclass(frozen=True, eq=False)
class DatasetNodes(OwnSplits, Nodes):
    """One graph of a data set."""


@dataclass(frozen=True, eq=False)
class DatasetGraphs(OwnSplits, Graphs):
    """Many graphs of a data set with an official split."""


def subject_of(data: Any, training: Training) -> tuple[Problem, Training]:
    """The problem, and the training with the task and the score that a data set of `rade.data` has."""
    if not isinstance(data, Dataset):
        return problem_of(data), training
    task = data.loss if training.task == "auto" else training.task
    metric = data.metric if training.metric == "auto" else training.metric
    return _problem(data), replace(training, task=task, metric=metric)


def _problem(data: Dataset) -> Problem:
    if data.level == "node":
        graph = copy.copy(data.graphs[0])
        graph.x = graph.x if graph.x.layout is torch.strided else graph.x.to_dense()  # as PyG's layers expect it
        return DatasetNodes((graph,), rows_of(graph.y), data.splits, data.density, data.name)
    graphs = tuple(data.graphs[k] for k in range(len(data.graphs)))
    if data.folds:  # their validation and test parts are the same, so the test score would be chosen for
        return Graphs(graphs)
    targets = torch.cat([graph.y for graph in graphs])
    return DatasetGraphs(graphs, rows_of(targets), data.splits, data.density, data.name)
