"""Epochs as the trainer runs them, every backbone and method, against PyG's own layers on dense features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader
from torch_geometric.utils import dropout_edge

from rade.bench.measure import Contestant, Row, Setting, interleaved, peak_bytes
from rade.data import Dataset, load
from rade.nn.backbones import build_backbone
from rade.nn.linear import dense
from rade.train.loop import Trainee, fit
from rade.train.model import Shape, build_learner
from rade.train.process import Solo
from rade.train.progress import Progress, Stopping
from rade.train.run import split_of
from rade.train.schedule import SCHEDULES
from rade.train.settings import Settings, resolve
from rade.train.steps import batches_of
from rade.train.task import Task
from rade.wrapper.conversion import revert

MOST_BYTES = 4e9  # of PyG's messages, of which a step holds several copies: GIN on Physics has 17 GB of them
METHODS = ("none", "rade-of-uncorrected", "rade-of-fixed", "rade-of", "rade-ofs")


@dataclass(frozen=True)
class Case:
    """A data set and backbone with our goals: full RADE-OF over our plain epoch, and ours over PyG's plain epoch."""

    data: str
    backbone: str
    rade: float
    plain: float | None = None


CASES = (
    *(Case("cora", name, 2.0, 0.2 if name == "gcn" else None) for name in ("gcn", "gin")),
    *(Case("pubmed", name, 2.0, 0.05 if name == "gcn" else None) for name in ("gcn", "gin")),
    *(Case(data, "gcn", 2.0, 0.08) for data in ("cs", "computer", "physics")),
    *(Case(data, "gin", 2.0) for data in ("cs", "computer", "physics")),
    *(Case(data, "gat", 3.0) for data in ("cora", "computer")),
    *(Case(data, "gcn", 2.5, 0.7) for data in ("mutag", "proteins")),
)
TOY = (Case("csbm", "gcn", 2.0, 1.0),)


def cases(setting: Setting) -> Iterator[tuple[Case, Dataset]]:
    """Those that are asked for, with their data."""
    for case in TOY if setting.quick else CASES:
        if not setting.only or case.data in setting.only:
            yield case, load(case.data, root=setting.data_root)


class Ours:
    """The trainer's own epochs, one at a time."""

    def __init__(self, case: Case, data: Dataset, method: str) -> None:
        self.settings: Settings = resolve(data.name, case.backbone, method, "paper", epochs=10**6, patience=0)
        self.batches = batches_of(data, split_of(data, 0, 0), self.settings, 0, Solo())
        self.task = Task.of(data)
        learner = build_learner(self.settings, Shape.of(data), 0)
        optimizer = torch.optim.Adam(learner.parameters(), lr=self.settings.lr)
        self.trainee = Trainee(learner, optimizer, SCHEDULES[self.settings.schedule](optimizer), Progress())

    def epoch(self, *_: object) -> None:
        """Training steps, rate steps and evaluation."""
        stopping = Stopping(self.trainee.progress.epoch + 1, 0)
        fit(self.trainee, self.batches, self.task, stopping, Solo(), lambda trainee: None)

    def phases(self) -> dict[str, float]:
        """Seconds of one epoch by what they are spent on."""
        spent = dict.fromkeys(("forward", "backward", "update", "rate step", "evaluation"), 0.0)
        learner, logits = self.trainee.learner.train(), None

        def timed(name: str, run: Callable[[], Any]) -> Any:
            start = perf_counter()
            found = run()
            spent[name] += perf_counter() - start
            return found

        for batch in self.batches.training(0):
            self.trainee.optimizer.zero_grad()
            loss = timed("forward", lambda: self.task.loss(learner(*batch.inputs), batch.labels))  # noqa: B023
            timed("backward", loss.backward)
            timed("update", self.trainee.optimizer.step)
            if learner.adapts_after(batch.last):
                loss_of = lambda logits: self.task.loss(logits, batch.labels)  # noqa: B023, E731
                logits = timed("rate step", lambda: batch.adapt(learner, loss_of))  # noqa: B023
        learner.eval()
        timed("evaluation", lambda: self.batches.evaluation(learner, logits)("val"))
        return spent


class PyG:
    """The same model of PyG's own layers, in a loop as people write it: dense features, whole passes."""

    def __init__(self, case: Case, data: Dataset, settings: Settings, drop: float = 0.0) -> None:
        self.data, self.task, self.drop = data, Task.of(data), drop
        split = split_of(data, 0, 0)
        rest: dict[str, Any] = {"layers": settings.layers, "pool": settings.pool, "encoder": data.encoder}
        net = build_backbone(case.backbone, data.features, settings.hidden, self.task.outputs, **rest)
        self.net = revert(net)
        self.optimizer = torch.optim.Adam(net.parameters(), lr=settings.lr)
        if data.level == "node":
            self.x, self.train = dense(data.graphs[0].x), split.train
        else:
            parts = [[data.graphs[int(i)] for i in part] for part in (split.train, split.val)]
            self.loaders = [DataLoader(part, settings.batch_size, shuffle=k == 0) for k, part in enumerate(parts)]

    def epoch(self, *_: object) -> None:
        """Training steps and an evaluation pass."""
        self.net.train()
        if self.data.level == "graph":
            for batch in self.loaders[0]:
                self._step(batch.x, batch.edge_index, batch.batch, slice(None), batch.y)
            self.net.eval()
            with torch.no_grad():
                for batch in self.loaders[1]:
                    self.net(batch.x, batch.edge_index, batch.batch)
            return
        graph = self.data.graphs[0]
        self._step(self.x, graph.edge_index, None, self.train, graph.y[self.train])
        self.net.eval()
        with torch.no_grad():
            self.net(self.x, graph.edge_index)

    def _step(self, x: Tensor, edge_index: Tensor, batch: Tensor | None, rows: Any, labels: Tensor) -> None:
        self.optimizer.zero_grad()
        if self.drop > 0.0:
            edge_index = dropout_edge(edge_index, self.drop, force_undirected=True)[0]
        torch.autograd.backward(self.task.loss(self.net(x, edge_index, batch)[rows], labels))
        self.optimizer.step()


def message_bytes(case: Case, data: Dataset) -> int:
    """What PyG's layers keep of the first layer's messages: one per edge, of the features' width before any map."""
    if data.level == "graph" or case.backbone in ("gcn", "gat"):  # these map first, to the hidden width
        return 0
    graph = data.graphs[0]
    return 4 * data.features * int(graph.edge_index.shape[1])


def epoch(setting: Setting) -> Iterator[Row]:
    """Every backbone and method: plain against PyG's plain and PyG with dropout_edge, the others against plain."""
    for case, data in cases(setting):
        ours = {method: Ours(case, data, method) for method in METHODS}
        settings = ours["none"].settings
        where = f"{case.backbone} on {case.data}"
        peers = {}
        if message_bytes(case, data) < MOST_BYTES:
            peers = {"PyG": PyG(case, data, settings), "PyG + dropout_edge": PyG(case, data, settings, 0.5)}
        contestants = {name: Contestant(peer.epoch) for name, peer in peers.items()}
        contestants |= {name: Contestant(each.epoch) for name, each in ours.items()}
        seconds = interleaved(contestants, setting.repeats)
        for name in peers:
            yield Row("epoch", f"{name}, {where}", seconds[name])
        if peers:
            ratio = seconds["none"] / seconds["PyG"]
            yield Row("epoch", f"plain, {where}", seconds["none"], "PyG", ratio, case.plain)
        else:
            figures = {"GB of PyG's messages, not run": message_bytes(case, data) / 1e9}
            yield Row("epoch", f"plain, {where}", seconds["none"], figures=figures)
        for name in METHODS[1:]:
            target = case.rade if name == "rade-of" else None
            yield Row("epoch", f"{name}, {where}", seconds[name], "plain", seconds[name] / seconds["none"], target)


def phases(setting: Setting) -> Iterator[Row]:
    """Where the time of an epoch goes, in per cent, and the most memory that it holds at once."""
    for case, data in cases(setting):
        for method in ("none", "rade-of"):
            ours = Ours(case, data, method)
            ours.epoch()
            spent = ours.phases()
            total = sum(spent.values())
            figures = {f"% {name}": 100.0 * part / total for name, part in spent.items()}
            figures["MB held"] = peak_bytes(ours.epoch) / 1e6
            yield Row("phases", f"{method}, {case.backbone} on {case.data}", total, figures=figures)


def rate_step(setting: Setting) -> Iterator[Row]:
    """A rate step, its own clean pass included, against a plain training step."""
    for case, data in cases(setting):
        if data.level == "node":
            plain, adapting = Ours(case, data, "none"), Ours(case, data, "rade-of")
            plain.epoch()
            adapting.epoch()
            turns = [(plain.phases(), adapting.phases()) for _ in range(setting.repeats)]
            step = sorted(one["forward"] + one["backward"] for one, _ in turns)[len(turns) // 2]
            rate = sorted(other["rate step"] for _, other in turns)[len(turns) // 2]
            yield Row("rate-step", f"{case.backbone} on {case.data}", rate, "plain training step", rate / step, 1.3)
