"""A report: tables filled from a store and judged, and what is left beside them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rade.experiment.table import PLAIN, Cell, Experiment, Row
from rade.report.cells import CellResult, Group, Places, fill, group
from rade.report.judge import Verdict, correct, judge
from rade.statistics import differences, spread
from rade.train.record import MEASURES, SCORE, Measure, RunRecord

# What a line is compared with, in words.
AGAINST = {"plain": "the plain backbone", "baseline": "the best baseline", "full": "the full method"}


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
        return not any(cell.runs or cell.published for cell in self.cells)


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
        return tuple(cell for cell in self.cells if cell.runs)

    @property
    def roles(self) -> set[str]:
        """Of the rows that have runs."""
        return {cell.row.role for cell in self.filled}

    @property
    def runs(self) -> list[RunRecord]:
        """The runs of all cells."""
        return [run for cell in self.cells for run in cell.runs]

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

    def of_rade(self, kind: str) -> list[CellComparison]:
        """The comparisons of RADE and its variants with a kind of reference."""
        return [one for one in self.comparisons if one.kind == kind and one.cell.row.role == "rade"]

    def at(self, dataset: str, backbone: str) -> list[CellResult]:
        """The cells with runs of one data set and backbone."""
        return [cell for cell in self.filled if (cell.dataset, cell.backbone) == (dataset, backbone)]

    def best_baseline(self, dataset: str, backbone: str) -> CellResult | None:
        """By its gain over plain on the seeds that both have; one with an interval comes before a single run."""
        baselines = [cell for cell in self.at(dataset, backbone) if cell.row.role == "baseline"]
        gains = [(one.verdict.result, cell) for cell in baselines if (one := self.against(cell))]
        return max(gains, key=lambda gain: (gain[0].low is not None, gain[0].mean), default=(None, None))[1]


@dataclass(frozen=True)
class Report:
    """Everything that is printed."""

    tables: tuple[Table, ...]
    runs: tuple[RunRecord, ...]
    others: int  # runs that fill no cell


def build(runs: Sequence[RunRecord], experiments: Sequence[Experiment]) -> Report:
    """Fill and judge the tables; those without a run are left out."""
    places = group(runs)
    tables = tuple(table for one in experiments if (table := fill_table(one, places)).filled)
    placed = {run.key for table in tables for run in table.runs}
    return Report(tables, tuple(runs), sum(run.key not in placed for run in runs))


def reading_order(experiments: Iterable[Experiment]) -> list[Experiment]:
    """The paper's main tables first, those with a plain backbone and baselines; then its others; then any beyond.

    Among like ones nodes come before graphs, and GCN, with which most was run, before other backbones.
    """

    def rank(experiment: Experiment) -> tuple[bool, bool, int, bool, str]:
        main = {"plain", "baseline"} <= {row.role for row in experiment.rows}
        order = -len(experiment.datasets), experiment.backbones != ("gcn",)
        return not experiment.label, not main, *order, experiment.name

    return sorted(experiments, key=rank)


def fill_table(experiment: Experiment, places: Places) -> Table:
    """Fill a table and compare what was run. Times are not compared: they depend on the machine."""
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
    found.sort(key=lambda one: one.cell.row.role == "baseline")  # what is under test comes first
    verdicts = correct([one.verdict for one in found])
    judged = tuple(replace(one, verdict=verdict) for one, verdict in zip(found, verdicts))
    return Table(experiment, lines, judged)


def _comparisons(cell: CellResult, lines: Sequence[Line], places: Places) -> Iterable[CellComparison]:
    """Of a cell that was run: with plain, and if it is RADE with the best baseline and the method it is a part of."""
    if not cell.runs or cell.row.role == "plain":
        return
    there = (cell.dataset, cell.backbone)
    place = [one for line in lines for one in line.cells if (one.dataset, one.backbone) == there]
    chosen = {"plain": _plain(cell, place, places.get(there, ()))}
    if cell.row.role == "rade":
        baselines = _alike([one for one in place if one.row.role == "baseline"], cell)
        chosen["baseline"] = max(baselines, key=lambda one: _lead(one, cell), default=None)
        full = [one for one in place if cell.row.method.startswith(one.row.method + "-")]
        chosen["full"] = next(iter(_alike(full, cell)), None)
    for kind, reference in chosen.items():
        if reference:
            against = AGAINST[kind] if kind == "plain" else f"{AGAINST[kind]}, {reference.row.name}"
            verdict = judge(cell.row.name, against, cell.scores, reference.scores, cell.folds)
            if verdict:
                yield CellComparison(cell, reference, kind, verdict)


def _plain(cell: CellResult, place: Sequence[CellResult], groups: Sequence[Group]) -> CellResult | None:
    """The table's plain line, else plain runs of the same surroundings in the store."""
    own = _alike([one for one in place if one.row.role == "plain"], cell)
    same = (one for one in groups if one.first.method == PLAIN and one.surroundings == cell.group.surroundings)
    stored = (replace(cell, group=one, scores=one.measured(SCORE)) for one in same)
    return own[0] if own else next(stored, None)


def _alike(cells: Sequence[CellResult], cell: CellResult) -> list[CellResult]:
    """Cells that were run and share all but the method; where every method has one row, the table means just that."""
    run = [one for one in cells if one.runs]
    same = [one for one in run if one.group.surroundings == cell.group.surroundings]
    methods = [one.row.method for one in cells]
    return same or (run if len(set(methods)) == len(methods) else [])


def _lead(theirs: CellResult, ours: CellResult) -> tuple[bool, float]:
    """Of a baseline on the seeds that both have, in points; one that shares fewer than two comes last."""
    gaps = differences(theirs.scores, ours.scores, theirs.folds)
    return (len(gaps) > 1, spread(gaps).mean) if gaps else (False, float("-inf"))
