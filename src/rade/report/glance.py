"""Counts over whole tables, and where the rates of RADE went: lines that need no single cell to be read."""

from collections.abc import Iterable

from rade.report.build import Report
from rade.report.match import Cell, Filled
from rade.report.numbers import duration
from rade.report.overview import close_to_paper
from rade.report.tables import Table

Line = tuple[str, ...]
COUNTS: Line = (
    "table", "cells run", "runs", "machine time", "within the paper's ± std", "RADE above, below plain",
    "RADE above, below the best baseline",
)  # fmt: skip
RATES: Line = ("data set", "backbone", "method", "runs", "p: first, last", "q: first, last")


def counts(report: Report) -> Iterable[Line]:
    """One line per table of scores; above and below where the 95 % interval of a paired difference excludes 0."""
    for table in report.tables:
        if table.is_score:
            runs = [run for cell in table.filled if cell.filled for run in cell.filled.group.runs]
            seconds = sum(sorted(run.seconds for run in runs))
            yield (
                table.experiment.title,
                f"{len(table.filled)} of {len(table.cells)}",
                f"{len(runs):,}",
                duration(seconds),
                close_to_paper(table),
                _told(table, "plain"),
                _told(table, "baseline"),
            )


def rates(report: Report) -> Iterable[Line]:
    """One line per cell whose rates moved, in the first table that has it."""
    seen: set[str] = set()
    for table in report.tables:
        for cell in table.filled:
            if cell.filled and cell.filled.group.name not in seen and _moves(cell, cell.filled):
                seen.add(cell.filled.group.name)
                group = cell.filled.group
                paths = [_path(cell.filled, "p", ".2f"), _path(cell.filled, "q", ".3g")]
                yield (*group.place, cell.row.name, str(len(group.runs)), *paths)


def _told(table: Table, kind: str) -> str:
    ours = [one.result for one in table.comparisons if one.kind == kind and not one.cell.is_baseline]
    told = [one for one in ours if one.low is not None and one.high is not None]
    above, below = sum((one.low or 0.0) > 0 for one in told), sum((one.high or 0.0) < 0 for one in told)
    return f"{above}, {below} of {len(told)}" if told else "–"


def _moves(cell: Cell, filled: Filled) -> bool:
    if cell.is_plain or cell.is_baseline:
        return False
    curves = [run.curves[name].values for run in filled.group.runs for name in ("p", "q") if name in run.curves]
    return any(min(values) != max(values) for values in curves)


def _path(filled: Filled, name: str, form: str) -> str:
    """The first value, and the least and largest last one."""
    curves = [run.curves[name].values for run in filled.group.runs if name in run.curves]
    low, high = (f"{end(values[-1] for values in curves):{form}}" for end in (min, max))
    return f"{curves[0][0]:{form}}, {low if low == high else f'{low}–{high}'}"
