"""Epochs as the trainer runs them, every backbone and method, against PyG's own layers on dense features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

from rade.bench.authors import against_authors
from rade.bench.cases import Case, cases
from rade.bench.measure import Contestant, Row, Setting, interleaved, peak_bytes
from rade.bench.paper import published
from rade.bench.pyg import MOST_BYTES, PyG, message_bytes
from rade.data import Dataset
from rade.train.batches import batches_of
from rade.train.loop import Trainee, fit
from rade.train.model import Shape, build_learner
from rade.train.process import Solo
from rade.train.settings import Settings, resolve
from rade.train.stages import problem_of

METHODS = ("none", "rade-of-uncorrected", "rade-of-fixed", "rade-of", "rade-ofs")


class Ours:
    """The trainer's own epochs, one at a time."""

    def __init__(self, case: Case, data: Dataset, method: str) -> None:
        self.settings: Settings = resolve(data.name, case.backbone, method, "paper", epochs=10**6, patience=0)
        problem = problem_of(data, self.settings)
        self.batches, self.task = batches_of(problem, problem.split(0), self.settings, 0, Solo()), problem.task
        self.trainee = Trainee.of(build_learner(self.settings, Shape.of(data), 0, 0, data), self.settings)

    def epoch(self, *_: object) -> None:
        """Training steps, rate steps and evaluation."""
        one_more = self.settings.model_copy(update={"epochs": self.trainee.progress.epoch + 1})
        fit(self.trainee, self.batches, self.task, one_more, Solo())

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
            loss = timed("forward", lambda: self.task.loss(learner(batch), batch.labels))  # noqa: B023
            timed("backward", loss.backward)
            timed("update", self.trainee.optimizer.step)
            if learner.adapts_after(batch.last):
                loss_of = lambda logits: self.task.loss(logits, batch.labels)  # noqa: B023, E731
                logits = timed("rate step", lambda: learner.adapt(batch, loss_of))  # noqa: B023
        learner.eval()
        timed("evaluation", lambda: self.batches.evaluation(learner, logits)("val"))
        return spent


def epoch(setting: Setting) -> Iterator[Row]:
    """Every backbone and method: plain against PyG's plain and PyG with dropout_edge, the others against plain."""
    for case, data in cases(setting):
        methods = ("none", "rade-of") if setting.goals else METHODS
        ours = {method: Ours(case, data, method) for method in methods}
        settings = ours["none"].settings
        where = f"{case.backbone} on {case.data}"
        peers = _peers(case, data, settings, setting.goals)
        contestants = {name: Contestant(peer.epoch) for name, peer in peers.items()}
        contestants |= {name: Contestant(each.epoch) for name, each in ours.items()}
        seconds = interleaved(contestants, setting.repeats)
        for name in peers:
            yield Row("epoch", f"{name}, {where}", seconds[name])
        if peers:
            ratio = seconds["none"] / seconds["PyG"]
            yield Row("epoch", f"plain, {where}", seconds["none"], "PyG", ratio, case.plain)
        elif not setting.goals:
            figures = {"GB of PyG's messages, not run": message_bytes(case, data) / 1e9}
            yield Row("epoch", f"plain, {where}", seconds["none"], figures=figures)
        for name in methods[1:]:
            target = case.rade if name == "rade-of" else None
            row = Row("epoch", f"{name}, {where}", seconds[name], "plain", seconds[name] / seconds["none"], target)
            yield replace(row, figures=published(name, case))
        yield from against_authors(setting, case, seconds["rade-of"])


def _peers(case: Case, data: Dataset, settings: Settings, goals: bool) -> dict[str, PyG]:
    """PyG's own layers, where their messages fit into memory."""
    if message_bytes(case, data) >= MOST_BYTES or (goals and case.plain is None):
        return {}
    peers = {"PyG": PyG(case, data, settings)}
    return peers if goals else peers | {"PyG + dropout_edge": PyG(case, data, settings, 0.5)}


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
