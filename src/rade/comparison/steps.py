"""The steps of an epoch on the user's data: the whole graph, or batches of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from rade.augment import Labelled, Learner
from rade.comparison.learner import AnyLearner
from rade.comparison.problems import Graphs, Problem
from rade.train.seeds import generator
from rade.train.steps import Batches, Outputs


@dataclass(frozen=True, eq=False)
class Step:
    """One step: a graph or a batch of them, and the rows whose labels the loss sees."""

    data: Data
    rows: Tensor | None
    labels: Tensor
    last: bool = True
    weight: float = 1.0

    @property
    def inputs(self) -> tuple[Data, Tensor | None]:
        """The arguments of the learner."""
        return self.data, self.rows

    def adapt(self, learner: Learner, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """One step of the rates; the evaluation logits of all rows if that made them anyway."""
        known = ~torch.isnan(self.labels) if self.labels.is_floating_point() else None
        known = known if known is None or known.dim() == 2 else known[:, None]
        rows = self.rows
        seen = Labelled(rows, known, loss if rows is None else lambda logits: loss(logits[rows]))
        return cast(AnyLearner, learner).follow(seen)


class WholeGraph:
    """All nodes in every pass, so that one evaluation pass scores all parts."""

    free: tuple[str, ...] = ("train", "test")

    def __init__(self, problem: Problem, seed: int) -> None:
        self.data, self.labels, self.parts = problem.graphs[0], problem.labels, vars(problem.split(seed))

    def training(self, epoch: int) -> Iterable[Step]:
        """One step."""
        rows = self.parts["train"]
        return [Step(self.data, rows, self.labels[rows])]

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Rows of one pass, which the last step may have made already."""
        found = self.predict(learner) if logits is None else logits
        return lambda part: (found[self.parts[part]], self.labels[self.parts[part]])

    @torch.no_grad()
    def predict(self, learner: Learner) -> Tensor:
        """Evaluation logits of every node."""
        logits: Tensor = learner(self.data)
        return logits


class GraphBatches:
    """Batches of whole graphs, in a fresh order for every epoch."""

    free: tuple[str, ...] = ()

    def __init__(self, problem: Problem, seed: int, size: int) -> None:
        self.graphs, self.labels, self.parts = problem.graphs, problem.labels, vars(problem.split(seed))
        self.seed, self.size = seed, size
        self._judged: dict[str, list[Step]] = {}

    def training(self, epoch: int) -> Iterator[Step]:
        """Equal for all methods of a seed."""
        items = self.parts["train"]
        return self._steps(items[torch.randperm(len(items), generator=generator(self.seed, 0, epoch))])

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """A pass over a part when it is asked for."""

        @torch.no_grad()
        def outputs(part: str) -> Outputs:
            if part not in self._judged:
                self._judged[part] = list(self._steps(self.parts[part]))
            found = torch.cat([learner(*step.inputs) for step in self._judged[part]])
            return found, torch.cat([step.labels for step in self._judged[part]])

        return outputs

    @torch.no_grad()
    def predict(self, learner: Learner) -> Tensor:
        """Evaluation logits of every graph."""
        return torch.cat([learner(*step.inputs) for step in self._steps(torch.arange(len(self.graphs)))])

    def _steps(self, items: Tensor) -> Iterator[Step]:
        chunks = list(torch.split(items, self.size))
        if len(chunks) > 1 and len(chunks[-1]) == 1:  # batch norm cannot train on a single row
            chunks[-2:] = [torch.cat(chunks[-2:])]
        for number, chunk in enumerate(chunks, 1):
            union = Batch.from_data_list([self.graphs[index] for index in chunk.tolist()])
            yield Step(union, None, self.labels[chunk], last=number == len(chunks))


def batches_of(problem: Problem, seed: int, size: int) -> Batches:
    """The kind of steps that the data asks for."""
    return GraphBatches(problem, seed, size) if isinstance(problem, Graphs) else WholeGraph(problem, seed)
