"""A report: tables filled from a store and judged, and what is left beside them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rade.experiment.table import Cell, Experiment, Row
from rade.report.cells import PLAIN, CellResult, Filled, fill, measured
from rade.report.judge import Verdict, correct, judge
from rade.report.runs import Group, Stored, group
from rade.statistics import differences, spread
from rade.train.record import MEASURES, SCORE, Measure, RunRecord

# What a line is compared with, in words.
AGAINST = {"plain": "the plain backbone", "baseline": "the best baseline", "full": "the full method"}

Places = Mapping[tuple[str, str], Sequence[Group]]


@dataclass(frozen=True)
class CellComparison:
    """A cell against another, on the runs that both have; the verdict's family is all that its table compares."""

    cell: CellResult
    reference: CellResult
    kind: str
    verdict: Verdict


@dataclass(frozen=True)
class Line:
    """A row of a table with one backbone, over the table's data sets."""

    row: Row
    backbone: str
    cells: tuple[CellResult, ...]

    @property
    def is_blank(self) -> bool:
        """Whether it has neither runs nor numbers of the paper."""
        return all(cell.filled is None and cell.published is None for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """An experiment with what was found."""

    experiment: Experiment
    lines: tuple[Line, ...]
    comparisons: tuple[CellComparison, ...]

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """All cells, line by line."""
        return tuple(cell for line in self.lines for cell in line.cells)

    @property
    def filled(self) -> tuple[CellResult, ...]:
        """The cells that have runs."""
        return tuple(cell for cell in self.cells if cell.filled)

    @property
    def runs(self) -> list[RunRecord]:
        """The runs of all cells."""
        return [run for cell in self.filled if cell.filled for run in cell.filled.group.runs]

    @property
    def measure(self) -> Measure:
        """What the numbers are."""
        return MEASURES[self.experiment.measure]

    @property
    def is_score(self) -> bool:
        """Whether the numbers are scores in points; others are shown and not tested."""
        return self.experiment.measure == SCORE

    def against(self, cell: CellResult | None, kind: str = "plain") -> CellComparison | None:
        """The comparison of a cell with the plain backbone or another reference."""
        return next((one for one in self.comparisons if one.cell is cell and one.kind == kind), None)

    def at(self, dataset: str, backbone: str) -> list[CellResult]:
        """The cells with runs of one data set and backbone."""
        return [cell for cell in self.filled if (cell.dataset, cell.backbone) == (dataset, backbone)]

    def best_baseline(self, dataset: str, backbone: str) -> CellResult | None:
        """By its gain over plain on the seeds that both have; one with an interval comes before a single run."""
        compared = [self.against(cell) for cell in self.at(dataset, backbone) if cell.is_baseline]
        results = [(one.verdict.result, one.cell) for one in compared if one is not None]
        ranked = [(result.low is not None, result.mean, cell) for result, cell in results]
        return max(ranked, key=lambda place: place[:2], default=(False, 0.0, None))[2]


@dataclass(frozen=True)
class Report:
    """Everything that is printed."""

    tables: tuple[Table, ...]
    others: int  # runs that fill no cell
    stored: Stored


def build(stored: Stored, experiments: Sequence[Experiment]) -> Report:
    """Fill and judge the tables; those without a run are left out."""
    groups = group(stored.runs)
    tables = tuple(table for one in experiments if (table := fill_table(one, groups)).filled)
    placed = {run.key for table in tables for run in table.runs}
    return Report(tables, sum(run.key not in placed for run in stored.runs), stored)


def reading_order(experiments: Iterable[Experiment]) -> list[Experiment]:
    """The paper's main tables first, those with a plain backbone and baselines; then its others; then any beyond."""

    def rank(experiment: Experiment) -> tuple[bool, bool, str]:
        methods = {row.method for row in experiment.rows}
        main = PLAIN in methods and any(not method.startswith("rade") for method in methods - {PLAIN})
        return not experiment.label, not main, experiment.name

    return sorted(experiments, key=rank)


def fill_table(experiment: Experiment, groups: Sequence[Group]) -> Table:
    """Fill a table and compare what was run. Times are not compared: they depend on the machine."""
    places: dict[tuple[str, str], list[Group]] = {}
    for one in groups:
        places.setdefault(one.place, []).append(one)
    lines = tuple(
        Line(row, backbone, tuple(fill(Cell(experiment, row, name, backbone), places.get((name, backbone), ()))
                                  for name in experiment.datasets))
        for backbone in dict.fromkeys(backbone for row in experiment.rows for backbone in row.backbones)
        for row in experiment.rows
        if backbone in row.backbones
    )  # fmt: skip
    if experiment.measure != SCORE:
        return Table(experiment, lines, ())
    found = [one for line in lines for cell in line.cells for one in _comparisons(cell, lines, places)]
    found.sort(key=lambda one: one.cell.is_baseline)  # what is under test comes first
    verdicts = correct([one.verdict for one in found])
    judged = tuple(replace(one, verdict=verdict) for one, verdict in zip(found, verdicts))
    return Table(experiment, lines, judged)


def _comparisons(cell: CellResult, lines: Sequence[Line], places: Places) -> Iterable[CellComparison]:
    """Of a cell that was run: with plain, and if it is RADE with the best baseline and the method it is a part of."""
    if cell.filled is None or cell.is_plain:
        return
    ours, place = cell.filled, [
        one for line in lines if line.backbone == cell.backbone for one in line.cells if one.dataset == cell.dataset
    ]  # fmt: skip
    chosen = {"plain": _plain(cell, ours, place, places.get((cell.dataset, cell.backbone), ()))}
    if cell.is_rade:
        baselines = _alike([one for one in place if one.is_baseline], ours)
        chosen["baseline"] = max(baselines, key=lambda one: _lead(one.filled, ours), default=None)
        full = [one for one in place if cell.row.method.startswith(one.row.method + "-")]
        chosen["full"] = next(iter(_alike(full, ours)), None)
    for kind, reference in chosen.items():
        if reference and reference.filled:
            against = AGAINST[kind] if kind == "plain" else f"{AGAINST[kind]}, {reference.row.name}"
            verdict = judge(cell.row.name, against, ours.scores.by, reference.filled.scores.by, ours.scores.folds)
            if verdict:
                yield CellComparison(cell, reference, kind, verdict)


def _plain(cell: CellResult, filled: Filled, place: Sequence[CellResult], groups: Sequence[Group]) -> CellResult | None:
    """The table's plain line, else plain runs of the same surroundings in the store."""
    own = _alike([one for one in place if one.is_plain], filled)
    if own:
        return own[0]
    same = (one for one in groups if one.method == PLAIN and one.surroundings == filled.group.surroundings)
    return next((replace(cell, filled=measured(one)) for one in same), None)


def _alike(cells: Sequence[CellResult], filled: Filled) -> list[CellResult]:
    """Cells that were run and share all but the method; where every method has one row, the table means just that."""
    run = [one for one in cells if one.filled]
    same = [one for one in run if one.filled and one.filled.group.surroundings == filled.group.surroundings]
    methods = [one.row.method for one in cells]
    return same or (run if len(set(methods)) == len(methods) else [])


def _lead(theirs: Filled | None, ours: Filled) -> tuple[bool, float]:
    """Of a baseline on the seeds that both have, in points; one that shares fewer than two comes last."""
    gaps = differences(theirs.scores.by, ours.scores.by, theirs.scores.folds) if theirs else ()
    return (len(gaps) > 1, spread(gaps).mean) if gaps else (False, float("-inf"))
