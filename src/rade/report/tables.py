"""A table of the paper filled from the store and judged: cells, paired comparisons, and one line over all data sets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rade.report.compare import Comparison, adjust, compare, paired_differences
from rade.report.groups import Group
from rade.report.match import PLAIN, Cell, Filled, fill, measure
from rade.report.overall import ENOUGH, Interval, interquartile_mean, probability_of_improvement
from rade.report.paper import Experiment, Row
from rade.report.selection import Scores
from rade.statistics import spread
from rade.train.measures import MEASURES, SCORE


@dataclass(frozen=True)
class Line:
    """A row of a table with one backbone, over the table's data sets."""

    row: Row
    backbone: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Overall:
    """A line against plain over the data sets that have pairs `ENOUGH`, run as the table asks; two at least."""

    line: Line
    datasets: tuple[str, ...]
    improvement: Interval
    middle: Interval


@dataclass(frozen=True)
class Table:
    """An experiment with what was found."""

    experiment: Experiment
    lines: tuple[Line, ...]
    comparisons: tuple[Comparison, ...]
    overall: tuple[Overall, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, line by line."""
        return tuple(cell for line in self.lines for cell in line.cells)

    @property
    def filled(self) -> tuple[Cell, ...]:
        """The cells that have runs."""
        return tuple(cell for cell in self.cells if cell.filled)

    @property
    def digits(self) -> int:
        """Digits of the table's numbers."""
        return MEASURES[self.experiment.measure].digits

    @property
    def words(self) -> str:
        """What the numbers are."""
        return MEASURES[self.experiment.measure].words

    @property
    def is_score(self) -> bool:
        """Whether the numbers are scores in points; others are shown and not tested."""
        return self.experiment.measure == SCORE

    def against(self, cell: Cell, kind: str) -> Comparison | None:
        """The comparison of a cell with the plain backbone or another reference."""
        return next((one for one in self.comparisons if one.cell is cell and one.kind == kind), None)


def judge(experiment: Experiment, groups: Sequence[Group]) -> Table:
    """Fill a table and compare what was run. Times are not compared: they depend on the machine."""
    by_place: dict[tuple[str, str], list[Group]] = {}
    for one in groups:
        by_place.setdefault(one.place, []).append(one)
    lines = tuple(
        Line(row, backbone, tuple(_cells(experiment, row, backbone, by_place)))
        for backbone in dict.fromkeys(backbone for row in experiment.rows for backbone in row.backbones)
        for row in experiment.rows
        if backbone in row.backbones
    )
    if experiment.measure != SCORE:
        return Table(experiment, lines, (), ())
    found = [one for line in lines for cell in line.cells for one in _comparisons(cell, lines, by_place)]
    found.sort(key=lambda one: one.cell.is_baseline)  # what is under test comes first
    return Table(experiment, lines, adjust(found), tuple(_overall(lines, found)))


def _cells(
    experiment: Experiment, row: Row, backbone: str, by_place: Mapping[tuple[str, str], Sequence[Group]]
) -> Iterable[Cell]:
    for dataset in experiment.datasets:
        yield fill(experiment, row, backbone, dataset, by_place.get((dataset, backbone), ()))


def _comparisons(
    cell: Cell, lines: Sequence[Line], by_place: Mapping[tuple[str, str], Sequence[Group]]
) -> Iterable[Comparison]:
    if cell.filled is None or cell.is_plain:
        return
    place = [
        one for line in lines if line.backbone == cell.backbone for one in line.cells if one.dataset == cell.dataset
    ]
    baselines = [one for one in place if one.is_baseline]
    chosen = {"plain": _plain(cell, cell.filled, place, by_place.get((cell.dataset, cell.backbone), ()))}
    if not cell.is_baseline:
        ours = cell.filled
        chosen["baseline"] = max(_alike(baselines, ours), key=lambda one: _lead(one.filled, ours), default=None)
        full = [one for one in place if cell.row.method.startswith(one.row.method + "-")]
        chosen["full"] = next(iter(_alike(full, cell.filled)), None)
    for kind, reference in chosen.items():
        found = compare(cell, reference, kind) if reference else None
        if found:
            yield found


def _plain(cell: Cell, filled: Filled, place: Sequence[Cell], groups: Sequence[Group]) -> Cell | None:
    """The table's plain line, else plain runs of the same surroundings in the store."""
    own = _alike([one for one in place if one.is_plain], filled)
    if own:
        return own[0]
    for group in groups:
        if group.method == PLAIN and group.surroundings == filled.group.surroundings:
            scores = measure(group, SCORE)
            return Cell(cell.row, cell.backbone, cell.dataset, _filled(group, scores))
    return None


def _filled(group: Group, scores: Scores) -> Filled:
    return Filled(group, scores, spread([100 * value for value in scores.units.values()]), ())


def _alike(cells: Sequence[Cell], filled: Filled) -> list[Cell]:
    """Cells that were run and share all but the method; where every method has one row, the table means just that."""
    run = [one for one in cells if one.filled]
    same = [one for one in run if one.filled and one.filled.group.surroundings == filled.group.surroundings]
    methods = [one.row.method for one in cells]
    return same or (run if len(set(methods)) == len(methods) else [])


def _lead(theirs: Filled | None, ours: Filled) -> tuple[bool, float]:
    """Of a baseline on the seeds that both have, in points; one that shares fewer than two comes last."""
    gaps = paired_differences(theirs, ours) if theirs else ()
    return (len(gaps) > 1, spread(gaps).mean) if gaps else (False, float("-inf"))


def _counts(filled: Filled | None, one: Comparison) -> bool:
    """Whether a data set counts over all of them: run as the table has it, and often enough."""
    return filled is not None and not filled.departures and one.result.count >= ENOUGH


def _overall(lines: Sequence[Line], comparisons: Sequence[Comparison]) -> Iterable[Overall]:
    to_plain = {id(one.cell): one for one in comparisons if one.kind == "plain"}
    for line in sorted(lines, key=lambda line: line.cells[0].is_baseline):
        pairs = {
            cell.dataset: (cell.filled, to_plain[id(cell)].reference.filled)
            for cell in line.cells
            if id(cell) in to_plain and _counts(cell.filled, to_plain[id(cell)])
        }
        both = {name: (mine, plain) for name, (mine, plain) in pairs.items() if mine and plain}
        if len(both) > 1:
            improvement = probability_of_improvement(
                {name: list(mine.scores.units.values()) for name, (mine, _) in both.items()},
                {name: list(plain.scores.units.values()) for name, (_, plain) in both.items()},
            )
            gaps = {name: paired_differences(mine, plain) for name, (mine, plain) in both.items()}
            yield Overall(line, tuple(both), improvement, interquartile_mean(gaps))
