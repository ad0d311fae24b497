"""Which runs of a store belong into which cell of a table, and how they depart from the protocol."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rade.experiment.table import Cell
from rade.report.runs import Group
from rade.statistics import Pair, Spread, averaged, spread
from rade.train.protocol import defaults
from rade.train.record import LATER, MEASURES, NEUTRAL, SCORE, RunRecord

# A stage that changes labels or graphs is no reproduction of a table that does not ask for it.
STAGES = {**LATER, "corrupt": ""}
# The number of runs is no setting of a run; fan-outs depend on depth and mean nothing without batches.
_UNCOMPARED = NEUTRAL | {"runs", "fanouts"}


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
        """Mean and deviation over runs, or over folds averaged over their repetitions: in points, seconds, nats."""
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
    row, wanted, protocol = cell.row, cell.settings, cell.experiment.protocol
    fitting = [one for one in groups if one.is_whole and _fits(one, row.method, protocol, wanted)]
    away = {one.name: departures(one.flat, protocol, {*wanted, *row.search}) for one in fitting}
    # Another rate is another method.
    ours = [one for one in fitting if away[one.name].keys().isdisjoint(one.first.settings["options"])]
    least = min((len(away[one.name]) for one in ours), default=0)
    near = sorted((one for one in ours if len(away[one.name]) == least), key=lambda one: (-len(one.runs), one.name))
    candidates = _whole_candidates(near, row.candidates()) if row.search else near[:1]
    if not candidates or (row.search and len(candidates) == 1):  # of one candidate nothing was chosen
        return CellResult(**vars(cell))
    chosen = max(candidates, key=_validation)
    scores, away_from = chosen.measured(cell.experiment.measure), tuple(away[chosen.name].values())
    if not scores:
        return CellResult(**vars(cell))
    return CellResult(**vars(cell), group=chosen, scores=scores, departures=away_from, tried=len(candidates))


def departures(settings: Mapping[str, Any], protocol: str, allowed: Collection[str] = ()) -> dict[str, str]:
    """Settings that differ from the protocol's, by name in words, apart from those that are `allowed` to."""
    expected = defaults(settings["dataset"], settings["backbone"], settings["method"], protocol)
    return {
        name: f"{name} {settings[name]} instead of {value}"
        for name, value in sorted(expected.items())
        if name not in _UNCOMPARED and name not in allowed and name in settings and settings[name] != value
    }


def _fits(group: Group, method: str, protocol: str, wanted: Mapping[str, Any]) -> bool:
    if group.method != method or group.first.protocol not in ("", protocol):
        return False
    asked = {**STAGES, **wanted}
    return all(_same(group.flat.get(name, STAGES.get(name)), value) for name, value in asked.items())


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
