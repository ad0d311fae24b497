"""Which runs of a store stand in which cell of a table: read, grouped where only their seed differs, and matched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rade.errors import RunError
from rade.experiment.table import Cell
from rade.statistics import Pair, Spread, averaged, best_common_epoch, spread
from rade.train.protocol import defaults
from rade.train.record import MEASURES, NEUTRAL, SCORE, UNSAID, RunRecord

# The number of runs is no setting of a run; fan-outs depend on depth and mean nothing without batches.
_UNCOMPARED = NEUTRAL | {"runs", "fanouts"}


@dataclass(frozen=True)
class Group:
    """The runs of equal settings and protocol, one per first seed and run number, in that order."""

    runs: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """A run that represents all: settings, metric, folds and protocol are the same."""
        return self.runs[0]

    @cached_property
    def flat(self) -> dict[str, Any]:
        """Settings and options under one roof."""
        return self.first.flat

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
        if not self.first.folds:
            return {run.pair: run.test for run in self.runs}
        by: dict[Pair, float] = {}
        for seed in sorted({run.pair[0] for run in self.runs}):
            runs = [run for run in self.runs if run.pair[0] == seed]
            by |= zip((run.pair for run in runs), best_common_epoch([run.history["val"] for run in runs])[1])
        return by


Places = Mapping[tuple[str, str], Sequence[Group]]  # by data set and backbone


def group(runs: Iterable[RunRecord]) -> Places:
    """Groups; of runs that repeat another's settings, seed and run the newest numerics count, then the first key.

    Run 0 of first seed 3 is run 3 of first seed 0, but for splits that are numbered; the outcome tells.
    """
    together: dict[str, dict[Pair, RunRecord]] = {}
    seen: set[tuple[Any, ...]] = set()
    for run in sorted(runs, key=lambda run: (-run.numerics, run.key)):
        if run.folds and not run.history.get("val"):
            raise RunError(f"run {run.key} lacks the curve of validation scores: folds are scored at a common epoch")
        identity = _text(run, metric=run.metric, folds=run.folds)
        outcome = run.pair if run.folds else (run.seed, run.val, run.test, run.best_epoch)
        names = {(identity, *run.pair), (identity, *outcome)}
        if not names & seen:
            seen |= names
            together.setdefault(identity, {})[run.pair] = run
    places: dict[tuple[str, str], list[Group]] = {}
    for _, slots in sorted(together.items()):
        one = Group(tuple(slots[pair] for pair in sorted(slots)))
        places.setdefault(one.first.place[:2], []).append(one)
    return places


def _text(run: RunRecord, **others: Any) -> str:
    """A run's settings without what makes it no other experiment, as one line."""
    kept = {name: value for name, value in {**UNSAID, **run.settings}.items() if name not in NEUTRAL}
    return json.dumps({**kept, "protocol": run.protocol, **others}, sort_keys=True, default=str)


NO_RUNS = Group(())


@dataclass(frozen=True)
class CellResult(Cell):
    """A cell of a table with the runs that belong into it, none where it was not run.

    scores: by first seed and run: fractions, or what else the table measures. departures: what to tell about settings.
    tried: among how many settings validation chose; 1 without a search.
    """

    group: Group = NO_RUNS
    scores: Mapping[Pair, float] = field(default_factory=dict)
    departures: tuple[str, ...] = ()
    tried: int = 1

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The runs that fill it."""
        return self.group.runs

    @property
    def folds(self) -> int:
        """How many the data set has; 0 where runs are no folds."""
        return self.runs[0].folds if self.runs else 0

    @cached_property
    def spread(self) -> Spread:
        """Mean and deviation over runs, or over folds averaged over their repetitions: in points or seconds."""
        values = (averaged(self.scores) if self.folds else self.scores).values()
        return spread([MEASURES[self.experiment.measure].scale * value for value in values])

    @property
    def gap(self) -> float | None:
        """Ours minus the paper's, where both exist."""
        return self.spread.mean - self.published.mean if self.runs and self.published else None


def fill(cell: Cell, groups: Sequence[Group]) -> CellResult:
    """The cell with the runs that belong into it, if there are any.

    Groups fit by data set, backbone, method with its options, protocol and the row's settings. Of several the one with
    the fewest departures from the protocol is taken, then the one with most runs; of a search the best by validation.
    """
    row, wanted, protocol, empty = cell.row, cell.settings, cell.experiment.protocol, CellResult(**vars(cell))
    fitting = [one for one in groups if one.is_whole and _fits(one, row.method, protocol, wanted)]
    away = {one.name: departures(one.flat, protocol, {*wanted, *row.search}) for one in fitting}
    # Another rate is another method.
    ours = [one for one in fitting if away[one.name].keys().isdisjoint(one.first.settings["options"])]
    least = min((len(away[one.name]) for one in ours), default=0)
    near = sorted((one for one in ours if len(away[one.name]) == least), key=lambda one: (-len(one.runs), one.name))
    candidates = _whole_candidates(near, row.candidates()) if row.search else near[:1]
    if not candidates or (row.search and len(candidates) == 1):  # of one candidate nothing was chosen
        return empty
    chosen = max(candidates, key=_validation)
    scores, away_from = chosen.measured(cell.experiment.measure), tuple(away[chosen.name].values())
    filled = replace(empty, group=chosen, scores=scores, departures=away_from, tried=len(candidates))
    return filled if scores else empty


def departures(settings: Mapping[str, Any], protocol: str, allowed: Collection[str] = ()) -> dict[str, str]:
    """Settings that differ from the protocol's, by name in words, apart from those that are `allowed` to."""
    expected = defaults(settings["dataset"], settings["backbone"], settings["method"], protocol)
    return {
        name: f"{name} {settings[name]} instead of {value}"
        for name, value in sorted(expected.items())
        if name not in _UNCOMPARED and name not in allowed and name in settings and settings[name] != value
    }


def _fits(group: Group, method: str, protocol: str, wanted: Mapping[str, Any]) -> bool:
    if group.first.method != method or group.first.protocol not in ("", protocol):
        return False
    asked = {**UNSAID, **wanted}  # other labels, or another graph, are no reproduction of a table that asks for neither
    return all(_same(group.flat.get(name), value) for name, value in asked.items())


def _whole_candidates(groups: Sequence[Group], candidates: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Groups of a search in its order, each with the runs that most of them have; one that lacks some is left out.

    Settings that another table asked for have more runs than the search, and are judged by the search's.
    """
    found = []
    for candidate in candidates:
        found += [one for one in groups if all(_same(one.flat.get(name), candidate[name]) for name in candidate)]
    counts = Counter(run.pair for one in found for run in one.runs)
    common = {pair for pair, count in counts.items() if 2 * count > len(found)}
    shared = [Group(tuple(run for run in one.runs if run.pair in common)) for one in found]
    return [one for one in shared if one.runs and len(one.runs) == len(common)]


def _same(stored: Any, wanted: Any) -> bool:
    """Equal, a tuple of the table being a list in JSON."""
    return bool(stored == (list(wanted) if isinstance(wanted, tuple) else wanted))


def _validation(group: Group) -> float:
    """Mean validation score; of folds, which are validated on what they report, the score itself."""
    values = averaged(group.measured(SCORE)).values() if group.first.folds else [run.val for run in group.runs]
    return spread(list(values)).mean
