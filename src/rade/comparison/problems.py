"""The user's data as a problem: one graph with masks, many graphs that are split by the seed, or a `rade.data` set."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, cast

import torch
import torch.utils.data
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch_geometric.data import Data

from rade.data import Dataset, RandomSplit, Split
from rade.errors import unknown
from rade.graph.graph import node_count
from rade.rates.readout import Pool, TaskName
from rade.train.tasks import LOSSES, METRICS, Loss, Metric, Problem, Task, generator

PARTS = ("train", "val", "test")
SHARES = (0.8, 0.9)  # where training and where validation graphs end, of all
_USUAL = {"multiclass": "accuracy", "binary": "accuracy", "multilabel": "micro-f1", "regression": "r2"}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Training:
    """Adam with early stopping on the validation score; the same for all methods of a comparison.

    Attributes:
        lr, weight_decay: those of Adam.
        epochs: the most there are.
        patience: epochs without a better validation score before training stops; 0 for never.
        batch_size: graphs in a step; a single graph is always whole.
        task: what the outputs are; ``"auto"`` tells it from the labels and the number of outputs.
        metric: ``"accuracy"``, ``"micro-f1"``, ``"roc-auc"``, ``"average-precision"``, ``"r2"``, or a function from
            outputs and labels to a number that is better when larger; ``"auto"`` is the task's.
        pool: how the model pools nodes to graphs, ``"sum"`` or ``"mean"``; rates that adapt must know.
        loss: a function from outputs and labels to what is minimised; by default the task's.
    """

    lr: float = Field(default=0.01, gt=0)
    weight_decay: float = Field(default=5e-4, ge=0)
    epochs: int = Field(default=200, ge=1)
    patience: int = Field(default=50, ge=0)
    batch_size: int = Field(default=32, ge=1)
    task: TaskName = "auto"
    metric: str | Metric = "auto"
    pool: Pool | None = None
    loss: Loss | None = None


# Until a model has been seen: its outputs tell what is to be learned.
_UNTOLD = Task("", LOSSES["multiclass"], METRICS["accuracy"])


def own_problem(data: Any, training: Training) -> tuple[Problem, Training]:
    """The problem, its task still open, and the training with the task and the score that a `rade.data` set has."""
    if isinstance(data, Dataset):
        task = data.loss if training.task == "auto" else training.task
        metric = data.metric if training.metric == "auto" else training.metric
        return _catalogued(data), replace(training, task=task, metric=metric)
    if isinstance(data, Data):
        return _nodes(data), training
    graphs = tuple(_each(data))
    if len(graphs) == 1 and "train_mask" in graphs[0]:
        return _nodes(graphs[0]), training
    if len(graphs) < 10:
        raise ValueError(f"graphs are split 80/10/10 %, so there must be at least 10, got {len(graphs)}")
    for one in graphs:
        if one.y is None:
            raise ValueError("every graph needs a label, data.y, and one has none")
        if one.edge_index is not None:
            node_count(one.edge_index, one.num_nodes)
    return _graphs(graphs), training


def with_task(problem: Problem, training: Training, outputs: Tensor, labels: Tensor) -> Problem:
    """The problem with its task: told from outputs [k, C] and labels [k] or [k, C], or as the user says."""
    name = _told(outputs, labels) if training.task == "auto" else training.task
    _check_shapes(name, outputs, labels)
    metric = _USUAL[name] if training.metric == "auto" else training.metric
    if isinstance(metric, str):
        if metric not in METRICS:
            raise unknown("metric", metric, METRICS)
        word, score = metric, METRICS[metric]
    else:
        word, score = str(getattr(metric, "__name__", type(metric).__name__)), metric
    loss = LOSSES[name] if training.loss is None else training.loss
    return replace(problem, task=Task(name, loss, score), metric=word)


def _own(
    name: str, level: str, graphs: tuple[Data, ...], labels: Tensor, split: Any, ratio: float, density: float = -1.0
) -> Problem:
    if density < 0:
        density = sum(int(data.num_edges) for data in graphs) / max(1, sum(map(_ordered_pairs, graphs)))
    origin = {"name": name, "source": "", "licence": "", "files": {}, "options": {}}
    return Problem(name, level, graphs, labels, split, _UNTOLD, "", density, origin, ratio=ratio)


def _ordered_pairs(data: Data) -> int:
    """Pairs of different nodes; where a batch vector says so, within its graphs."""
    sizes = torch.tensor([data.num_nodes]) if data.get("batch") is None else torch.bincount(data["batch"])
    return int((sizes * (sizes - 1)).sum())


def _catalogued(data: Dataset) -> Problem:
    """A data set with its own splits: seed k takes that of run k."""
    if data.level == "node":
        graph = copy.copy(data.graphs[0])
        graph.x = graph.x if graph.x.layout is torch.strided else graph.x.to_dense()  # as PyG's layers expect it
        graphs, labels = (graph,), _rows(graph.y)
    else:
        graphs = tuple(data.graphs[k] for k in range(len(data.graphs)))
        if data.folds:  # their validation and test parts are the same, so the test score would be chosen for
            return _graphs(graphs)
        labels = _rows(torch.cat([graph.y for graph in graphs]))
    first = data.split(0)
    # Random splits share most of their training items; official ones are what they are.
    ratio = len(first.test) / len(first.train) if isinstance(data.splits, RandomSplit) else 0.0
    return _own(data.name, data.level, graphs, labels, data.split, ratio, data.density)


def _each(data: Any) -> Iterator[Data]:
    if not isinstance(data, Sequence | torch.utils.data.Dataset):
        raise TypeError(
            f"expected a PyG Data object, a list or data set of them, or a rade.data set, got {type(data).__name__}"
        )
    for index in range(len(cast(Sequence[Any], data))):
        if not isinstance(data[index], Data):
            raise TypeError(f"expected graphs as PyG Data objects, got {type(data[index]).__name__}")
        yield data[index]


def _nodes(data: Data) -> Problem:
    """One graph whose nodes have labels and masks; columns of a mask are splits, taken in turn."""
    if data.y is None or data.edge_index is None:
        raise ValueError("the data needs labels, data.y, and edges, data.edge_index")
    node_count(data.edge_index, data.num_nodes)
    if len(data.y) != data.num_nodes:
        raise ValueError(f"the data needs a label for each of its {data.num_nodes} nodes, got {len(data.y)} in data.y")
    for part in PARTS:
        mask = data.get(f"{part}_mask")
        usable = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() in (1, 2)
        if not usable or mask.shape[0] != data.num_nodes:
            raise ValueError(
                f"the data needs a bool {part}_mask [{data.num_nodes}] or [{data.num_nodes}, splits]; "
                "torch_geometric.transforms.RandomNodeSplit() makes all three"
            )
        if not bool(mask.any(0).all()):
            raise ValueError(f"{part}_mask selects no node; training, validation and test need some each")
    columns = {data[f"{part}_mask"].shape[1] for part in PARTS if data[f"{part}_mask"].dim() == 2} - {1}
    if len(columns) > 1:
        raise ValueError(f"the masks have {' and '.join(map(str, sorted(columns)))} columns, which are splits of all")
    for one, other in combinations(PARTS, 2):
        masks = (data[f"{part}_mask"].view(data.num_nodes, -1) for part in (one, other))
        shared = int(torch.logical_and(*masks).any(1).sum())
        if shared:
            raise ValueError(
                f"{one}_mask and {other}_mask share {shared} nodes, so scores would say nothing; parts must be disjoint"
            )
    return _own("own graph", "node", (data,), _rows(data.y), partial(_masked, data), 0.0)


def _masked(data: Data, seed: int) -> Split:
    masks = [data[f"{part}_mask"] for part in PARTS]
    columns = [mask if mask.dim() == 1 else mask[:, seed % mask.shape[1]] for mask in masks]
    return Split(*(column.nonzero().squeeze(1) for column in columns))


def _graphs(graphs: tuple[Data, ...]) -> Problem:
    """Many graphs with a label each; 80, 10 and 10 % at random, classes in proportion.

    Splits share most of their training graphs, so their scores are no independent draws.
    """
    labels = [torch.as_tensor(data.y).reshape(-1) for data in graphs]  # a number, [1], [C] or [1, C] each
    targets = _rows(torch.stack([label[0] if label.numel() == 1 else label for label in labels]))
    ratio = (1 - SHARES[1]) / SHARES[0]
    return _own("own graphs", "graph", graphs, targets, partial(_in_proportion, targets), ratio)


def _in_proportion(labels: Tensor, seed: int) -> Split:
    """Each class is shuffled and spread evenly over [0, 1); then the line is cut."""
    draws = generator(seed, 5)
    classes = labels if labels.dim() == 1 and not labels.is_floating_point() else torch.zeros(len(labels)).long()
    place = torch.empty(len(labels), dtype=torch.double)
    for one in torch.unique(classes):
        members = (classes == one).nonzero().squeeze(1)
        order = torch.randperm(len(members), generator=draws).double()
        place[members] = (order + torch.rand((), generator=draws).double()) / len(members)
    ends = [round(share * len(labels)) for share in SHARES]
    return Split(*(part.sort().values for part in torch.tensor_split(place.argsort(), ends)))


def _rows(labels: Tensor) -> Tensor:
    """[N, 1] as [N]; whole numbers and bools as int64, which losses want."""
    labels = labels if labels.is_floating_point() else labels.long()
    return labels.squeeze(1) if labels.dim() == 2 and labels.shape[1] == 1 else labels


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
