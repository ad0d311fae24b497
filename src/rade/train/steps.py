"""Where training steps come from: the whole graph, sampled neighborhoods, or batches of graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from rade.augment import Labelled, Learner, Wanted
from rade.data import Dataset, Split, mean_batch_nodes, neighbor_loader
from rade.graph.graph import Graph
from rade.graph.nodes import nodes_of
from rade.train.errors import SettingsError
from rade.train.process import Solo
from rade.train.seeds import derive, generator
from rade.train.settings import Settings

SIZED = 4  # training batches that tell their usual size
Outputs = tuple[Tensor, Tensor]  # logits and labels, row by row


@dataclass(frozen=True, eq=False)
class CleanRows:
    """Rows of one clean pass: those just trained on and those that are judged, and where each stand among them."""

    wanted: Wanted
    trained: Tensor
    judged: Tensor

    @staticmethod
    def of(trained: Tensor, judged: Tensor) -> CleanRows:
        """Each row once, though both may name it."""
        rows, place = torch.unique(torch.cat([trained, judged]), return_inverse=True)
        return CleanRows(Wanted(rows), *torch.split(place, [len(trained), len(judged)]))


class Step(Protocol):
    """What the loop must know of one step: the learner's arguments, their labels, and how rates follow it."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of a learner."""
        ...

    @property
    def labels(self) -> Tensor:
        """Those of the rows that the learner returns."""
        ...

    @property
    def weight(self) -> float:
        """Its part among processes."""
        ...

    @property
    def last(self) -> bool:
        """Whether it ends an epoch."""
        ...

    def adapt(self, learner: Learner, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """One rate step; what `Batches.evaluation` may use of it."""
        ...


@dataclass(frozen=True, eq=False)
class Batch:
    """One training step's input: the logits ``wanted`` of it carry `labels`; `weight` is its part among processes.

    `clean` says which rows a clean pass after it should cover; `last` marks the last step of an epoch.
    """

    x: Tensor
    graph: Graph
    batch: Tensor | None
    wanted: Wanted | None  # None: every logit
    labels: Tensor
    clean: CleanRows | None = None
    weight: float = 1.0
    last: bool = True

    @property
    def inputs(self) -> tuple[Tensor, Graph, Tensor | None, Wanted | None]:
        """The arguments of a learner."""
        return self.x, self.graph, self.batch, self.wanted

    @property
    def known(self) -> Tensor | None:
        """Which labels are known, where some may be missing (NaN)."""
        return ~torch.isnan(self.labels) if self.labels.is_floating_point() else None

    def adapt(self, learner: Learner, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """One rate step; the clean logits of the judged rows if that produced them anyway."""
        if self.clean is None:
            return learner.adapt(*self.inputs, Labelled(None, self.known, loss, self.weight))
        trained = self.clean.trained
        labelled = Labelled(trained, self.known, lambda logits: loss(logits[trained]), self.weight)
        logits = learner.adapt(self.x, self.graph, self.batch, self.clean.wanted, labelled)
        return None if logits is None else logits[self.clean.judged]


class Batches(Protocol):
    """The steps of an epoch, and the outputs by which it is judged; those on the `free` parts cost no further pass."""

    free: tuple[str, ...]

    def training(self, epoch: int) -> Iterable[Step]:
        """The steps of an epoch; equal epochs give equal steps."""
        ...

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """The outputs on a part ("val", "test"); `logits` are those of the last step's judged rows, if there are."""
        ...

    def predict(self, learner: Learner) -> Tensor:
        """Evaluation logits of every node, or of every graph."""
        ...


def batches_of(dataset: Dataset, split: Split, settings: Settings, seed: int, process: Solo) -> Batches:
    """The kind of batches that the data set and the settings ask for."""
    if dataset.level == "graph":
        return GraphSteps(dataset.graphs, split, settings, seed, process)
    if settings.batch_size > 0:
        return NeighborSteps(dataset.graphs[0], split, settings, seed, process)
    if process.world > 1:
        raise SettingsError(
            f"{process.world} processes cannot share full-batch training; give a batch size (--batch-size, --fanouts), "
            "or start one process"
        )
    return WholeGraph(dataset.graphs[0], split, settings.device)


class WholeGraph:
    """The whole graph in every step, computed where rows are wanted: training, then validation, then perhaps test."""

    def __init__(self, data: Any, split: Split, device: str) -> None:
        self.x = data.x.to(device)
        self.labels: Tensor = data.y.to(device)
        self.graph = Graph.from_edge_index(data.edge_index, data.num_nodes, data.batch).to(device)
        self.parts = {name: rows.to(device) for name, rows in _parts(split).items()}
        self.judged = self._judged()
        self.clean = CleanRows.of(self.parts["train"], self.judged)
        judged = nodes_of(self.judged, self.graph.num_nodes).position >= 0
        self.free: tuple[str, ...] = tuple(part for part in ("train", "test") if bool(judged[self.parts[part]].all()))

    def _judged(self) -> Tensor:
        """The validation rows; where these need nearly everybody, the test rows come at little more cost."""
        val = self.parts["val"]
        around = self.graph.neighborhood(nodes_of(val, self.graph.num_nodes))
        return val if around.few else torch.unique(torch.cat([val, self.parts["test"]]))

    def training(self, epoch: int) -> Iterable[Batch]:
        rows = self.parts["train"]
        return [Batch(self.x, self.graph, None, Wanted(rows), self.labels[rows], self.clean)]

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Rows of one pass, which the last step may have made already; the test rows in another where they are few."""
        judged = self._logits(learner, self.judged) if logits is None else logits
        place = nodes_of(self.judged, self.graph.num_nodes).position

        def outputs(part: str) -> Outputs:
            rows = self.parts[part]
            covered = place[rows]
            found = judged[covered] if bool((covered >= 0).all()) else self._logits(learner, rows)
            return found, self.labels[rows]

        return outputs

    def _logits(self, learner: Learner, rows: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = learner(self.x, self.graph, None, Wanted(rows))
        return logits

    def predict(self, learner: Learner) -> Tensor:
        """One evaluation pass over everything."""
        with torch.no_grad():
            logits: Tensor = learner(self.x, self.graph)
        return logits


class _Chunks(ABC):
    """Shared by both kinds of mini-batches: chunks of items, split among processes, one step each."""

    def __init__(self, split: Split, settings: Settings, seed: int, process: Solo) -> None:
        self.parts = _parts(split)
        # Cross-validation holds out one fold for both: what was computed for the one serves the other.
        self.free: tuple[str, ...] = ("test",) if split.test is split.val else ()
        self.size = settings.batch_size
        self.eval_size = settings.eval_batch_size or settings.batch_size
        self.device = settings.device
        self.seed = seed
        self.process = process

    @abstractmethod
    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Batch]:
        """One batch per chunk of `size` items."""

    def judged(self, learner: Learner, step: Batch) -> Learner:
        """The learner as it predicts on a step of evaluation."""
        return learner

    def training(self, epoch: int) -> Iterator[Batch]:
        """The training items in a fresh order; every process takes its part of every chunk."""
        items = self.parts["train"]
        items = items[torch.randperm(len(items), generator=generator(self.seed, 0, epoch))]
        chunks = torch.split(items, self.size)
        parts = [self.process.part(chunk) for chunk in chunks]
        weights = [len(part) * self.process.world / len(chunk) for part, chunk in zip(parts, chunks)]
        # A process without an item in the last chunk repeats one with weight 0, so that all take equally many steps.
        parts = [part if len(part) else items[:1] for part in parts]
        stream = derive(self.seed, 1, epoch, self.process.rank)
        for number, step in enumerate(self.steps(torch.cat(parts), len(parts[0]), stream), 1):
            yield replace(step, weight=weights[number - 1], last=number == len(weights))

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Passes over the items of a part, split among processes."""
        found: dict[int, Outputs] = {}

        def outputs(part: str) -> Outputs:
            items = self.parts[part]
            if id(items) not in found:
                found[id(items)] = self.outputs(learner, items)
            return found[id(items)]

        return outputs

    def outputs(self, learner: Learner, items: Tensor) -> Outputs:
        """Logits and labels of the items, those of one process after those of another."""
        logits, labels = [], []
        mine = self.process.part(items)
        with torch.no_grad():
            for step in self.steps(mine, self.eval_size, derive(self.seed, 2)):
                logits.append(self.judged(learner, step)(*step.inputs))
                labels.append(step.labels)
        return self.process.gather(torch.cat(logits)), self.process.gather(torch.cat(labels))


class GraphSteps(_Chunks):
    """Batches of whole graphs."""

    def __init__(self, graphs: Any, split: Split, settings: Settings, seed: int, process: Solo) -> None:
        if settings.batch_size == 0:
            raise SettingsError("training on graphs needs a batch size of at least 1, got 0; set --batch-size")
        super().__init__(split, settings, seed, process)
        self.graphs = graphs
        everything = graphs.batch(torch.arange(len(graphs)))
        # Sorted and checked once; a batch is some of these graphs.
        self.whole = Graph.from_edge_index(
            everything.edge_index, everything.num_nodes, everything.batch, everything.ptr
        )

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Batch]:
        """Disjoint unions of `size` graphs."""
        for chunk in torch.split(items, size):
            union = self.graphs.batch(chunk).to(self.device)
            graph = self.whole.pick(chunk).to(self.device)
            yield Batch(union.x, graph, union.batch, None, union.y)

    def predict(self, learner: Learner) -> Tensor:
        """Logits of every graph."""
        return self.outputs(learner, torch.arange(len(self.graphs)))[0]


class NeighborSteps(_Chunks):
    """Sampled neighborhoods of seed nodes; all else happens on the sampled graph."""

    def __init__(self, data: Any, split: Split, settings: Settings, seed: int, process: Solo) -> None:
        super().__init__(split, settings, seed, process)
        if len(settings.fanouts) != settings.layers:
            raise SettingsError(
                f"{settings.layers} layers need as many fan-outs, got {list(settings.fanouts)}; set --fanouts"
            )
        self.data = data
        self.fanouts = list(settings.fanouts)

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Batch]:
        """The sampled graph around each chunk of seeds; seeds come first."""
        for part in neighbor_loader(self.data, self.fanouts, size, items, seed=stream, backend="builtin"):
            part = part.to(self.device)
            graph = Graph.from_edge_index(part.edge_index, part.num_nodes)
            seeds = torch.arange(part.batch_size, device=self.device)
            yield Batch(part.x, graph, None, Wanted(seeds), part.y[: part.batch_size])

    def judged(self, learner: Learner, step: Batch) -> Learner:
        """With as many expected additions per node as in training, whose graphs have another size."""
        return learner.at(self._usual_nodes / step.graph.num_nodes)

    @cached_property
    def _usual_nodes(self) -> float:
        """The mean size of a training graph, told by the first few."""
        first = self.parts["train"][: SIZED * self.size]
        return mean_batch_nodes(
            neighbor_loader(self.data, self.fanouts, self.size, first, seed=derive(self.seed, 5), backend="builtin")
        )

    def predict(self, learner: Learner) -> Tensor:
        """Logits of every node."""
        return self.outputs(learner, torch.arange(self.data.num_nodes))[0]


def _parts(split: Split) -> dict[str, Tensor]:
    return {"train": split.train, "val": split.val, "test": split.test}
