"""Where training steps come from: the whole graph, sampled neighborhoods, or batches of graphs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rade.augment import Learner
from rade.data import Dataset, Split, neighbor_loader
from rade.graph.graph import Graph
from rade.train.errors import SettingsError
from rade.train.process import Solo
from rade.train.seeds import derive, generator
from rade.train.settings import Settings

Outputs = tuple[Tensor, Tensor]  # logits and labels, row by row


@dataclass(frozen=True, eq=False)
class Batch:
    """One training step's input: `rows` of the logits carry `labels`; `weight` is its part among processes.

    `last` marks the last step of an epoch.
    """

    x: Tensor
    graph: Graph
    batch: Tensor | None
    rows: Tensor
    labels: Tensor
    weight: float = 1.0
    last: bool = True

    @property
    def inputs(self) -> tuple[Tensor, Graph, Tensor | None]:
        """The arguments of a learner."""
        return self.x, self.graph, self.batch

    def loss(self, criterion: Callable[[Tensor, Tensor], Tensor], logits: Tensor) -> Tensor:
        """A criterion on the rows that carry labels."""
        return criterion(logits[self.rows], self.labels)

    @property
    def known(self) -> Tensor | None:
        """Which labels are known, where some may be missing (NaN)."""
        return ~torch.isnan(self.labels) if self.labels.is_floating_point() else None


class Batches(Protocol):
    """The steps of an epoch, and the outputs by which it is judged; those on the `free` parts cost no further pass."""

    free: tuple[str, ...]

    def training(self, epoch: int) -> Iterable[Batch]:
        """The steps of an epoch; equal epochs give equal steps."""
        ...

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """The outputs on a part ("val", "test"); `logits` of the last step are used where they cover it."""
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
    """The whole graph in every step; one evaluation pass covers all parts."""

    free: tuple[str, ...] = ("train", "test")

    def __init__(self, data: Any, split: Split, device: str) -> None:
        self.x = data.x.to(device)
        self.labels: Tensor = data.y.to(device)
        self.graph = Graph.from_edge_index(data.edge_index, data.num_nodes, data.batch).to(device)
        self.parts = {name: rows.to(device) for name, rows in _parts(split).items()}

    def training(self, epoch: int) -> Iterable[Batch]:
        """One step."""
        rows = self.parts["train"]
        return [Batch(self.x, self.graph, None, rows, self.labels[rows])]

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Rows of one evaluation pass, which the last step may have made already."""
        found = self.predict(learner) if logits is None else logits
        return lambda part: (found[self.parts[part]], self.labels[self.parts[part]])

    def predict(self, learner: Learner) -> Tensor:
        """One evaluation pass."""
        with torch.no_grad():
            logits: Tensor = learner(self.x, self.graph)
        return logits


class _Chunks:
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

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Batch]:
        """One batch per chunk of `size` items."""
        raise NotImplementedError

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
            yield Batch(*step.inputs, step.rows, step.labels, weights[number - 1], last=number == len(weights))

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
                logits.append(learner(*step.inputs)[step.rows])
                labels.append(step.labels)
        return self.process.gather(torch.cat(logits)), self.process.gather(torch.cat(labels))


class GraphSteps(_Chunks):
    """Batches of whole graphs."""

    def __init__(self, graphs: Any, split: Split, settings: Settings, seed: int, process: Solo) -> None:
        if settings.batch_size == 0:
            raise SettingsError("training on graphs needs a batch size of at least 1, got 0; set --batch-size")
        super().__init__(split, settings, seed, process)
        self.graphs = graphs

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Batch]:
        """Disjoint unions of `size` graphs."""
        for chunk in torch.split(items, size):
            union = self.graphs.batch(chunk).to(self.device)
            graph = Graph.from_edge_index(union.edge_index, union.num_nodes, union.batch, union.ptr)
            yield Batch(union.x, graph, union.batch, torch.arange(len(chunk), device=self.device), union.y)

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
            rows = torch.arange(part.batch_size, device=self.device)
            yield Batch(part.x, graph, None, rows, part.y[: part.batch_size])

    def predict(self, learner: Learner) -> Tensor:
        """Logits of every node."""
        return self.outputs(learner, torch.arange(self.data.num_nodes))[0]


def _parts(split: Split) -> dict[str, Tensor]:
    return {"train": split.train, "val": split.val, "test": split.test}
