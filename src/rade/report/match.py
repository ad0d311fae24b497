"""Which runs of the store belong into which cell of a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rade.report.expected import departures
from rade.report.groups import Group
from rade.report.paper import Experiment, Published, Row
from rade.report.selection import Scores, score
from rade.statistics import Spread, spread
from rade.train.measures import MEASURES, SCORE
from rade.train.record import LATER

PLAIN = "none"
STAGES = {**LATER, "corrupt": ""}


@dataclass(frozen=True)
class Filled:
    """What a cell's runs say: which ones they are, their scores, and what to tell about them.

    spread: in points (percent) or seconds. tried: among how many settings validation chose; 1 without a search.
    """

    group: Group
    scores: Scores
    spread: Spread
    departures: tuple[str, ...]
    tried: int = 1


@dataclass(frozen=True)
class Cell:
    """One line of a table on one data set, run or not."""

    row: Row
    backbone: str
    dataset: str
    filled: Filled | None

    @property
    def published(self) -> Published | None:
        """The paper's numbers, where it has any."""
        return self.row.published.get(self.backbone, {}).get(self.dataset)

    @property
    def gap(self) -> float | None:
        """Ours minus the paper's, where both exist."""
        if self.filled is None or self.published is None:
            return None
        return self.filled.spread.mean - self.published.mean

    @property
    def candidates(self) -> int:
        """How many settings the row searches through; 1 where it searches none."""
        return len(self.row.candidates())

    @property
    def is_plain(self) -> bool:
        """Whether this is the backbone alone."""
        return self.row.method == PLAIN

    @property
    def is_baseline(self) -> bool:
        """Whether this is another's regulariser."""
        return not self.is_plain and not self.row.method.startswith("rade")


def fill(experiment: Experiment, row: Row, backbone: str, dataset: str, groups: Sequence[Group]) -> Cell:
    """The cell with the runs that belong into it, if there are any.

    Groups fit by data set, backbone, method with its options, protocol and the row's settings. Of several the one with
    the fewest departures from the protocol is taken, then the one with most runs; of a search the best by validation.
    """
    empty, wanted = Cell(row, backbone, dataset, None), row.settings_on(dataset)
    place = (dataset, backbone)
    fitting = [one for one in groups if one.is_whole and _fits(one, place, row.method, experiment.protocol, wanted)]
    away = {one.name: departures(one.flat, experiment.protocol, {*wanted, *row.search}) for one in fitting}
    # Another rate is another method.
    ours = [one for one in fitting if away[one.name].keys().isdisjoint(one.first.settings["options"])]
    least = min((len(away[one.name]) for one in ours), default=0)
    near = sorted((one for one in ours if len(away[one.name]) == least), key=lambda one: (-len(one.runs), one.name))
    candidates = _whole_candidates(near, row.candidates()) if row.search else near[:1]
    if not candidates or (row.search and len(candidates) == 1):  # of one candidate nothing was chosen
        return empty
    chosen = max(candidates, key=_validation) if row.search else candidates[0]
    scores = measure(chosen, experiment.measure)
    if not scores.by:
        return empty
    values = spread([MEASURES[experiment.measure].scale * value for value in scores.units.values()])
    return replace(empty, filled=Filled(chosen, scores, values, tuple(away[chosen.name].values()), len(candidates)))


def measure(group: Group, name: str) -> Scores:
    """Scores by the selection rule, or another number of each run that has it."""
    if name == SCORE:
        return score(group)
    if name == "seconds_per_epoch":
        return Scores({run.pair: run.seconds_per_epoch for run in group.runs})
    return Scores({run.pair: run.quality[name] for run in group.runs if name in run.quality})


def _fits(group: Group, place: tuple[str, str], method: str, protocol: str, wanted: Mapping[str, Any]) -> bool:
    if group.place != place or group.method != method or group.protocol not in ("", protocol):
        return False
    # A stage that changes labels or graphs is no reproduction of a table that does not ask for it.
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
    return spread(list(score(group).units.values()) if group.first.folds else [run.val for run in group.runs]).mean
