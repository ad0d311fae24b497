"""From runs and tables to one value that every format prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rade.report.beside import Beside
from rade.report.compare import Comparison
from rade.report.groups import Group, group
from rade.report.match import PLAIN
from rade.report.paper import Experiment
from rade.report.rows import Problem, Run
from rade.report.selection import score
from rade.report.tables import Table, judge
from rade.statistics import Spread, spread

TITLE = "RADE: results"


@dataclass(frozen=True)
class Other:
    """Runs that fill no cell of any table, and why they stand apart."""

    group: Group
    spread: Spread
    reason: str


@dataclass(frozen=True)
class Report:
    """Everything that is printed; it holds every run exactly once in `runs`."""

    title: str
    tables: tuple[Table, ...]
    empty: tuple[Experiment, ...]  # tables without a run
    others: tuple[Other, ...]
    runs: tuple[Run, ...]
    problems: tuple[Problem, ...]
    homes: Mapping[str, tuple[str, ...]]  # key of a run → names of the tables it stands in
    beside: Beside = Beside()  # noqa: RUF009 - a frozen value

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Those of all tables."""
        return tuple(one for table in self.tables for one in table.comparisons)


def build(
    runs: Sequence[Run],
    experiments: Sequence[Experiment],
    problems: Sequence[Problem] = (),
    title: str = TITLE,
    beside: Beside = Beside(),  # noqa: B008 - a frozen value
) -> Report:
    """Fill and judge the tables; what fits none of them is kept apart, nothing is left out."""
    groups, repeated = group(runs)
    judged = [judge(experiment, groups) for experiment in experiments]
    tables = tuple(table for table in judged if table.filled)
    homes: dict[str, list[str]] = {}
    for table in tables:
        for cell in table.filled:
            for run in cell.filled.group.runs if cell.filled else ():
                homes.setdefault(run.key, []).append(table.experiment.name)
    left = [Group(tuple(run for run in one.runs if run.key not in homes)) for one in groups]
    alone = [rest for one, rest in zip(groups, left) if len(rest.runs) == len(one.runs)]
    beyond = [rest for one, rest in zip(groups, left) if 0 < len(rest.runs) < len(one.runs)]
    others = _others([one for one in alone if one.is_whole], "fits no cell of a table here")
    others += _others([one for one in alone if not one.is_whole], "some of its folds are missing")
    others += _others(beyond, _BEYOND)
    others += _others(_again(repeated), _REPEATED)
    return Report(
        title=title,
        tables=tables,
        empty=tuple(table.experiment for table in judged if not table.filled),
        others=tuple(others),
        runs=tuple(sorted(runs, key=lambda run: run.key)),
        problems=(*problems, *beside.problems),
        homes={key: tuple(dict.fromkeys(names)) for key, names in homes.items()},
        beside=beside,
    )


def reading_order(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The paper's main tables first, those with a plain backbone and baselines; then its others; then any beyond."""

    def rank(experiment: Experiment) -> tuple[bool, bool, str]:
        methods = {row.method for row in experiment.rows}
        main = PLAIN in methods and any(not method.startswith("rade") for method in methods - {PLAIN})
        return not experiment.label, not main, experiment.name

    return sorted(experiments, key=rank)


_BEYOND = "more runs than the settings that it was searched with"
_REPEATED = "repeats a run that is counted already (older numerics, other machine or threads)"


def _again(runs: Sequence[Run]) -> list[Group]:
    """Repeated runs in groups of their own; a run that repeats a repetition stands alone."""
    found: list[Group] = []
    left = tuple(runs)
    while left:
        groups, left = group(left)
        found += groups
    return found


def _others(groups: Sequence[Group], reason: str) -> list[Other]:
    return [Other(one, spread([100 * value for value in score(one).units.values()]), reason) for one in groups]
