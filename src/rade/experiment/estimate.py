"""How long runs will take: from stored runs of the same settings, else of similar ones, else from a trial."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rade.experiment.engine import Engine
from rade.experiment.jobs import Job
from rade.experiment.store import WORK, Store
from rade.experiment.work import Place, Trial
from rade.train.checkpoint import StopAsked
from rade.train.files import save_json
from rade.train.row import Row

# What makes epochs of two runs take about the same time, and what does not.
_SIMILAR = ("dataset", "backbone", "method", "hidden", "layers", "batch_size", "projection")
_STOPPING = ("dataset", "backbone", "epochs", "patience")  # what decides when early stopping ends a run
_NOT_THE_SAME = ("seed", "threads", "device")


@dataclass(frozen=True)
class Timings:
    """What is known so far: seconds of whole runs by their settings, of an epoch by what makes it long; epochs run."""

    whole: Mapping[str, float]
    epoch: Mapping[str, float]
    epochs: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[Row], trials: Mapping[str, float]) -> "Timings":
        """Averages over stored rows, and trials where there are none."""
        whole: dict[str, list[float]] = {}
        epoch: dict[str, list[float]] = {name: [seconds] for name, seconds in trials.items()}
        epochs: dict[str, list[float]] = {}
        seen = set()
        for row in rows:
            epochs.setdefault(ending(row["settings"]), []).append(row.get("epochs", row["settings"]["epochs"]))
            whole.setdefault(same(row["settings"]), []).append(row["timing"]["seconds"])
            name = similar(row["settings"])
            if name not in seen:  # real runs replace a trial
                seen.add(name)
                epoch[name] = []
            epoch[name].append(row["timing"]["seconds_per_epoch"])
        return Timings(_means(whole), _means(epoch), _means(epochs))

    def seconds(self, job: Job) -> float | None:
        """Of one run; at most, where it may stop early and none of its kind has yet."""
        settings = job.settings.model_dump(mode="json")
        known = self.whole.get(same(settings))
        if known is not None:
            return known
        per_epoch = self.epoch.get(similar(settings))
        return None if per_epoch is None else per_epoch * self.epochs.get(ending(settings), job.settings.epochs)


def same(settings: Mapping[str, Any]) -> str:
    """Equal for runs that differ by their seed only."""
    return json.dumps({name: settings[name] for name in settings if name not in _NOT_THE_SAME}, sort_keys=True)


def similar(settings: Mapping[str, Any]) -> str:
    """Equal for runs whose epochs take about the same time."""
    return json.dumps([settings.get(name) for name in _SIMILAR])


def ending(settings: Mapping[str, Any]) -> str:
    """Equal for runs that early stopping ends about alike."""
    return json.dumps([settings.get(name) for name in _STOPPING])


def stored_trials(store: Store) -> dict[str, float]:
    """The results of earlier trials; none where the file is missing or damaged."""
    try:
        found = json.loads(_path(store).read_text("utf-8"))
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def unknown_jobs(jobs: Sequence[Job], timings: Timings) -> list[Job]:
    """One job of each kind whose time is not known."""
    first: dict[str, Job] = {}
    for job in jobs:
        if timings.seconds(job) is None:
            first.setdefault(similar(job.settings.model_dump(mode="json")), job)
    return list(first.values())


def try_out(
    jobs: Sequence[Job], engine: Engine, place: Place, trials: dict[str, float], stop_asked: StopAsked
) -> dict[str, float]:
    """Time a few epochs of each job and remember them; a job that fails here will tell why when it is run."""
    for event in engine.run(iter(jobs), Trial(place), stop_asked):
        if event.kind == "done":
            trials = trials | {similar(event.job.settings.model_dump(mode="json")): event.value}
            if place.store.is_dir():  # at once, so that a grid that is killed here begins where it was
                save_json(_path(Store(place.store)), trials)
    return trials


def _path(store: Store) -> Path:
    return store.folder / WORK / "trials.json"


def _means(groups: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in groups.items()}
