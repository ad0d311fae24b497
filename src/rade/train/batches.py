"""Where training steps come from: the whole graph, sampled neighborhoods, or batches of graphs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial

import torch
from torch import Tensor
from torch_geometric.data import Batch

from rade import Graph
from rade.data import GraphList, NeighborLoader, Split, mean_batch_nodes
from rade.errors import SettingsError
from rade.train.backbones import FEW, nearby
from rade.train.learner import Learner, Step
from rade.train.process import gather, rank, world
from rade.train.settings import Plan
from rade.train.tasks import Outputs, Problem, derive, generator

SIZED = 4  # training batches that tell their usual size


def batches_of(problem: Problem, split: Split, plan: Plan, seed: int, by_rows: bool = True) -> Batches:
    """The kind of batches that the problem and the plan ask for; by_rows: as the learner says.

    `training` has the steps of an epoch, `evaluation` the outputs by which it is judged, of parts such as "val"; those
    on the `free` parts cost no further pass. `predict` has the logits of every node or graph.
    """
    if problem.level == "graph":
        return GraphBatches(problem, split, plan, seed)
    if plan.batch_size > 0:
        return NeighborBatches(problem, split, plan, seed)
    if world() > 1:
        raise SettingsError(
            f"{world()} processes cannot share full-batch training; give a batch size (--batch-size, --fanouts), "
            "or start one process"
        )
    return WholeGraph(problem, split, plan.device, by_rows)


class WholeGraph:
    """The whole graph in every step; where rows can be asked for singly, those of training, then of validation."""

    def __init__(self, problem: Problem, split: Split, device: str, by_rows: bool) -> None:
        self.labels = problem.labels.to(device)
        self.parts: dict[str, Tensor] = {name: rows.to(device) for name, rows in vars(split).items()}
        data, rows = copy.copy(problem.graphs[0]).to(device), self.parts["train"]
        step = Step(data, self.labels[rows], rows)
        self.step = replace(step, judged=self._judged(step.graph), whole=step.graph) if by_rows else step
        covered = torch.arange(data.num_nodes, device=device) if self.step.judged is None else self.step.judged
        self.place = covered.new_full((data.num_nodes,), -1)
        self.place[covered] = torch.arange(len(covered), device=device)
        self.free = tuple(part for part in ("train", "test") if self._covers(part))

    def _judged(self, graph: Graph) -> Tensor:
        """The validation rows; where these need nearly everybody, the test rows come at little more cost."""
        val = self.parts["val"]
        if nearby(graph, val, 1)[0].numel() <= FEW * graph.num_nodes:
            return val
        both: Tensor = torch.unique(torch.cat([val, self.parts["test"]]))
        return both

    def _covers(self, part: str) -> bool:
        return bool((self.place[self.parts[part]] >= 0).all())

    def training(self, epoch: int) -> Iterable[Step]:
        """One step."""
        return [self.step]

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Rows of one pass, which the last step may have made already; the test rows in another where they are few."""
        judged = self._logits(learner, self.step.judged) if logits is None else logits

        def outputs(part: str) -> Outputs:
            rows = self.parts[part]
            found = judged[self.place[rows]] if self._covers(part) else self._logits(learner, rows)
            return found, self.labels[rows]

        return outputs

    @torch.no_grad()
    def _logits(self, learner: Learner, rows: Tensor | None) -> Tensor:
        logits: Tensor = learner(replace(self.step, rows=rows))
        return logits

    def predict(self, learner: Learner) -> Tensor:
        """One evaluation pass over everything."""
        return self._logits(learner, None)


class Chunks(ABC):
    """Shared by both kinds of mini-batches: chunks of items, split among processes, one step each."""

    def __init__(self, problem: Problem, split: Split, plan: Plan, seed: int) -> None:
        self.problem = problem
        self.parts: dict[str, Tensor] = vars(split)
        # Cross-validation holds out one fold for both: what was computed for the one serves the other.
        self.free: tuple[str, ...] = ("test",) if split.test is split.val else ()
        self.size = plan.batch_size
        self.eval_size = plan.eval_batch_size or plan.batch_size
        self.device, self.seed = plan.device, seed

    @abstractmethod
    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Step]:
        """One step per chunk of `size` items."""

    def judged(self, step: Step) -> Step:
        """A step as evaluation takes it."""
        return step

    def training(self, epoch: int) -> Iterator[Step]:
        """The training items in a fresh order; every process takes its share of every chunk."""
        items = self.parts["train"]
        items = items[torch.randperm(len(items), generator=generator(self.seed, 0, epoch))]
        chunks = self.chunks(items, self.size)
        shares = [chunk[rank() :: world()] for chunk in chunks]
        weights = [len(mine) * world() / len(chunk) for mine, chunk in zip(shares, chunks)]
        # A process without an item in the last chunk repeats one with weight 0, so that all take equally many steps.
        shares = [mine if len(mine) else items[:1] for mine in shares]
        stream = derive(self.seed, 1, epoch, rank())
        for number, step in enumerate(self.steps(torch.cat(shares), len(shares[0]), stream), 1):
            yield replace(step, weight=weights[number - 1], last=number == len(weights))

    def chunks(self, items: Tensor, size: int) -> list[Tensor]:
        """Items by `size`."""
        return list(torch.split(items, size))

    def evaluation(self, learner: Learner, logits: Tensor | None) -> Callable[[str], Outputs]:
        """Passes over the items of a part, split among processes."""
        found = cache(partial(self.outputs, learner))  # folds are validation and test at once
        return lambda part: found(self.parts[part])

    @torch.no_grad()
    def outputs(self, learner: Learner, items: Tensor) -> Outputs:
        """Logits and labels of the items, those of one process after those of another."""
        logits, labels = [], []
        for step in self.steps(items[rank() :: world()], self.eval_size, derive(self.seed, 2)):
            logits.append(learner(self.judged(step)))
            labels.append(step.labels)
        return gather(torch.cat(logits)), gather(torch.cat(labels))

    def predict(self, learner: Learner) -> Tensor:
        """Logits of every node or graph."""
        return self.outputs(learner, torch.arange(len(self.problem.labels)))[0]


class GraphBatches(Chunks):
    """Batches of whole graphs."""

    def __init__(self, problem: Problem, split: Split, plan: Plan, seed: int) -> None:
        if plan.batch_size == 0:
            raise SettingsError("training on graphs needs a batch size of at least 1, got 0; set --batch-size")
        super().__init__(problem, split, plan, seed)
        self.labels = problem.labels.to(self.device)

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Step]:
        """Disjoint unions of `size` graphs."""
        graphs, known = self.problem.graphs, isinstance(self.problem.graphs, GraphList)
        for chunk in self.chunks(items, size):
            data = graphs.batch(chunk) if known else Batch.from_data_list([graphs[index] for index in chunk.tolist()])
            yield Step(data.to(self.device), self.labels[chunk.to(self.device)])

    def chunks(self, items: Tensor, size: int) -> list[Tensor]:
        """No single graph at the end: a user's batch norm cannot train on one row."""
        chunks = super().chunks(items, size)
        if not isinstance(self.problem.graphs, GraphList) and len(chunks) > 1 and len(chunks[-1]) == 1:
            chunks[-2:] = [torch.cat(chunks[-2:])]
        return chunks


class NeighborBatches(Chunks):
    """Sampled neighborhoods of seed nodes; all else happens on the sampled graph."""

    def __init__(self, problem: Problem, split: Split, plan: Plan, seed: int) -> None:
        super().__init__(problem, split, plan, seed)
        self.data, self.fanouts = problem.graphs[0], list(plan.fanouts)

    def steps(self, items: Tensor, size: int, stream: int) -> Iterator[Step]:
        """The sampled graph around each chunk of seeds; seeds come first."""
        for part in NeighborLoader(self.data, self.fanouts, size, items, seed=stream):
            part = part.to(self.device)
            seeds = torch.arange(part.batch_size, device=self.device)
            yield Step(part, part.y[: part.batch_size], seeds)

    def judged(self, step: Step) -> Step:
        """With as many expected additions per node as in training, whose graphs have another size."""
        return replace(step, scale=self._usual_nodes / step.data.num_nodes)

    @cached_property
    def _usual_nodes(self) -> float:
        """The mean size of a training graph, told by the first few."""
        first = self.parts["train"][: SIZED * self.size]
        seed = derive(self.seed, 5)
        return mean_batch_nodes(NeighborLoader(self.data, self.fanouts, self.size, first, seed=seed))


Batches = WholeGraph | Chunks
