"""Which runs of a store belong into which cell of a table, and how they depart from the protocol."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rade.experiment.table import Cell
from rade.report.runs import Group, GroupScores
from rade.statistics import Spread, spread
from rade.train.protocol import defaults
from rade.train.record import LATER, MEASURES, NEUTRAL, SCORE

PLAIN = "none"
# A stage that changes labels or graphs is no reproduction of a table that does not ask for it.
STAGES = {**LATER, "corrupt": ""}
# The number of runs is no setting of a run; fan-outs depend on depth and mean nothing without batches.
_UNCOMPARED = NEUTRAL | {"runs", "fanouts"}


@dataclass(frozen=True)
class Filled:
    """What a cell's runs say: which ones they are, their scores, and what to tell about them.

    spread: in points (percent) or seconds. tried: among how many settings validation chose; 1 without a search.
    """

    group: Group
    scores: GroupScores
    spread: Spread
    departures: tuple[str, ...] = ()
    tried: int = 1


@dataclass(frozen=True)
class CellResult(Cell):
    """A cell of a table with what was found, None where it was not run."""

    filled: Filled | None

    @property
    def gap(self) -> float | None:
        """Ours minus the paper's, where both exist."""
        return self.filled.spread.mean - self.published.mean if self.filled and self.published else None

    @property
    def is_plain(self) -> bool:
        """Whether this is the backbone alone."""
        return self.row.method == PLAIN

    @property
    def is_rade(self) -> bool:
        """Whether this is RADE or a variant of it."""
        return self.row.method.startswith("rade")

    @property
    def is_baseline(self) -> bool:
        """Whether this is another's regulariser."""
        return not self.is_plain and not self.is_rade


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
    chosen = max(candidates, key=_validation, default=None)
    if chosen is None or (row.search and len(candidates) == 1):  # of one candidate nothing was chosen
        return CellResult(**vars(cell), filled=None)
    filled = measured(chosen, cell.experiment.measure, tuple(away[chosen.name].values()), len(candidates))
    return CellResult(**vars(cell), filled=filled)


def measured(group: Group, measure: str = SCORE, away: tuple[str, ...] = (), tried: int = 1) -> Filled | None:
    """GroupScores by the selection rule, or another number of each run that has it; None where none has."""
    if measure == SCORE:
        scores = group.scores
    elif measure == "seconds_per_epoch":
        scores = GroupScores({run.pair: run.timing.seconds_per_epoch for run in group.runs})
    else:
        scores = GroupScores({run.pair: run.quality[measure] for run in group.runs if measure in run.quality})
    values = [MEASURES[measure].scale * value for value in scores.units.values()]
    return Filled(group, scores, spread(values), away, tried) if values else None


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
    return spread(list(group.scores.units.values()) if group.first.folds else [run.val for run in group.runs]).mean
