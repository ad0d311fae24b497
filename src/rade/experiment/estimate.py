"""How long runs will take: from stored runs of the same settings, else of similar ones, else roughly, from sizes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rade.experiment.guess import family, guess
from rade.experiment.jobs import Job
from rade.train.record import LATER, NEUTRAL
from rade.train.record import RunRecord as Row

# What makes epochs of two runs take about the same time, and what does not.
_SIMILAR = ("dataset", "backbone", "method", "hidden", "layers", "batch_size", "projection", "train_items")
_STOPPING = ("dataset", "backbone", "epochs", "patience")  # what decides when early stopping ends a run


@dataclass(frozen=True)
class Timed:
    """The seconds of an epoch with some settings."""

    settings: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class Timings:
    """What is known so far: seconds of whole runs by their settings, of an epoch by what makes it long; epochs run.

    speed: seconds over those guessed from sizes, by kind, by data set, and of all ("").
    """

    whole: Mapping[str, float] = field(default_factory=dict)
    epoch: Mapping[str, float] = field(default_factory=dict)
    epochs: Mapping[str, float] = field(default_factory=dict)
    speed: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[Row], pilots: Sequence[Timed] = ()) -> "Timings":
        """Averages over stored rows, and pilots where there are none."""
        whole: dict[str, list[float]] = {}
        epochs: dict[str, list[float]] = {}
        timed: list[Timed] = []
        for row in rows:
            settings, timing = row["settings"], row["timing"]
            epochs.setdefault(ending(settings), []).append(row["epochs"])
            whole.setdefault(same(settings), []).append(timing["seconds"])
            timed.append(Timed(settings, timing["seconds_per_epoch"]))
        real = {similar(one.settings) for one in timed}
        timed += [pilot for pilot in pilots if similar(pilot.settings) not in real]  # real runs replace a pilot
        epoch: dict[str, list[float]] = {}
        for one in timed:
            epoch.setdefault(similar(one.settings), []).append(one.seconds)
        return Timings(_means(whole), _means(epoch), _means(epochs), _speeds(timed))

    def seconds(self, job: Job) -> float:
        """Of one run; at most, where it may stop early and none of its kind has yet."""
        settings = job.settings.model_dump(mode="json")
        known = self.whole.get(same(settings))
        if known is not None:
            return known
        per_epoch = self.epoch.get(similar(settings))
        if per_epoch is None:
            places = (kind(settings), job.settings.dataset, "")
            per_epoch = guess(settings) * next((self.speed[place] for place in places if place in self.speed), 1.0)
        return per_epoch * self.epochs.get(ending(settings), job.settings.epochs)

    def is_rough(self, job: Job) -> bool:
        """Whether nothing like this run was timed."""
        settings = job.settings.model_dump(mode="json")
        return same(settings) not in self.whole and similar(settings) not in self.epoch

    def unknown(self, jobs: Iterable[Job]) -> list[Job]:
        """One job of each kind of which nothing was timed, the shortest first."""
        first: dict[str, Job] = {}
        for job in jobs:
            place = kind(job.settings.model_dump(mode="json"))
            if self.is_rough(job) and place not in self.speed:
                first.setdefault(place, job)
        return sorted(first.values(), key=lambda job: guess(job.settings.model_dump(mode="json")))


def same(settings: Mapping[str, Any]) -> str:
    """Equal for runs that differ by their seed only."""
    whole = {**LATER, **settings}  # older rows lack settings that came later
    return json.dumps({name: whole[name] for name in whole if name not in NEUTRAL}, sort_keys=True)


def similar(settings: Mapping[str, Any]) -> str:
    """Equal for runs whose epochs take about the same time."""
    return json.dumps([settings.get(name, LATER.get(name)) for name in _SIMILAR])


def ending(settings: Mapping[str, Any]) -> str:
    """Equal for runs that early stopping ends about alike."""
    return json.dumps([settings.get(name) for name in _STOPPING])


def kind(settings: Mapping[str, Any]) -> str:
    """Equal for runs that one pilot stands for."""
    return json.dumps([settings["dataset"], settings["backbone"], family(settings["method"])])


def _speeds(timed: Iterable[Timed]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for one in timed:
        if "hidden" in one.settings:  # a row of a store may have been made by hand
            ratio = one.seconds / guess(one.settings)
            for place in (kind(one.settings), one.settings["dataset"], ""):
                groups.setdefault(place, []).append(ratio)
    return {place: median(ratios) for place, ratios in groups.items()}


def _means(groups: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in groups.items()}
