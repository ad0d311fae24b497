"""Runs as the report sees them: read from a store, checked once, and grouped where only their seed differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rade.errors import RunError
from rade.experiment.store import existing
from rade.statistics import Pair, best_common_epoch
from rade.train.record import LATER, NEUTRAL, SCORE, RunRecord


@dataclass(frozen=True)
class Stored:
    """What a store holds: runs by key, and records of `rade diagnose`."""

    runs: tuple[RunRecord, ...]
    diagnoses: tuple[Mapping[str, Any], ...] = ()


def read_store(path: Path) -> Stored:
    """A store, ordered so that a report does not depend on the order of files."""
    found = read_records(existing(path).records())
    diagnoses = []
    for file in sorted((path / "studies" / "diagnoses").glob("*.json")):
        try:
            diagnoses.append(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError):
            raise RunError(f"{file} was not written by rade diagnose; delete it or diagnose again") from None
    return Stored(found.runs, tuple(diagnoses))


def read_records(records: Iterable[RunRecord]) -> Stored:
    """Runs from records, with settings that older ones lack."""
    complete = (one.model_copy(update={"settings": {**LATER, **one.settings}}) for one in records)
    runs = tuple(sorted(complete, key=lambda run: run.key))
    for run in runs:
        if run.folds and not run.history.get("val"):
            raise RunError(f"run {run.key} lacks the curve of validation scores: folds are scored at a common epoch")
    return Stored(runs)


@dataclass(frozen=True)
class Group:
    """The runs of equal settings and protocol, one per first seed and run number, in that order."""

    runs: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """A run that represents all: settings, metric, folds and protocol are the same."""
        return self.runs[0]

    @property
    def method(self) -> str:
        """The method's name in the settings."""
        return str(self.first.settings["method"])

    @property
    def place(self) -> tuple[str, str]:
        """Data set and backbone."""
        return str(self.first.settings["dataset"]), str(self.first.settings["backbone"])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """Settings and options under one roof."""
        kept = {name: value for name, value in self.first.settings.items() if name != "options"}
        return {**kept, **self.first.settings["options"]}

    @property
    def is_whole(self) -> bool:
        """Whether no fold is missing, where there are folds: they differ more than methods do."""
        return {run.run for run in self.runs} >= set(range(self.first.folds))

    @cached_property
    def surroundings(self) -> str:
        """All that two methods must share to be compared: everything but method, options and seed."""
        return _text(self.first, method="", options={})

    @cached_property
    def name(self) -> str:
        """Settings in one line that orders groups."""
        return _text(self.first, metric=self.first.metric, folds=self.first.folds)

    def measured(self, measure: str) -> dict[Pair, float]:
        """Numbers by first seed and run, of the runs that have them; with folds, the run is the fold.

        Scores are test scores at each run's best epoch; of folds, at the common best epoch of each repetition.
        """
        if measure == "seconds_per_epoch":
            return {run.pair: run.timing.seconds_per_epoch for run in self.runs}
        if measure != SCORE:
            return {run.pair: run.quality[measure] for run in self.runs if measure in run.quality}
        if not self.first.folds:
            return {run.pair: run.test for run in self.runs}
        by: dict[Pair, float] = {}
        for seed in sorted({run.pair[0] for run in self.runs}):
            runs = [run for run in self.runs if run.pair[0] == seed]
            by |= zip((run.pair for run in runs), best_common_epoch([run.history["val"] for run in runs])[1])
        return by


def group(runs: Iterable[RunRecord]) -> tuple[Group, ...]:
    """Groups; of runs that repeat another's settings, seed and run the newest numerics count, then the first key.

    Run 0 of first seed 3 is run 3 of first seed 0, but for splits that are numbered; the outcome tells.
    """
    together: dict[str, dict[Pair, RunRecord]] = {}
    seen: set[tuple[Any, ...]] = set()
    for run in sorted(runs, key=lambda run: (-run.numerics, run.key)):
        identity = _text(run, metric=run.metric, folds=run.folds)
        outcome = run.pair if run.folds else (run.seed, run.val, run.test, run.best_epoch)
        names = {(identity, *run.pair), (identity, *outcome)}
        if not names & seen:
            seen |= names
            together.setdefault(identity, {})[run.pair] = run
    return tuple(Group(tuple(slots[pair] for pair in sorted(slots))) for _, slots in sorted(together.items()))


def _text(run: RunRecord, **others: Any) -> str:
    """A run's settings without what makes it no other experiment, as one line."""
    kept = {name: value for name, value in run.settings.items() if name not in NEUTRAL}
    return json.dumps({**kept, "protocol": run.protocol, **others}, sort_keys=True, default=str)
