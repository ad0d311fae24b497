"""What is left of the validation score when training goes on, beside that of the best epoch."""

from collections.abc import Iterable
from statistics import median

from rade.report.build import Report
from rade.report.groups import Group
from rade.report.match import Cell
from rade.report.rows import LAST
from rade.report.tables import Table
from rade.statistics import number, paired_scores, spread

LATE = (
    "data set",
    "backbone",
    "method",
    "runs",
    "best epoch, epochs",
    "best",
    f"last {LAST}",
    f"last {LAST}, minus plain's",
)


def late(report: Report) -> Iterable[tuple[str, ...]]:
    """One line per cell of the tables that set RADE beside baselines, by data set, in the first table that has it."""
    seen: set[str] = set()
    places: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for table in report.tables:
        if table.is_score and any(cell.is_baseline for cell in table.filled):
            for cell in table.filled:
                group = cell.filled.group if cell.filled else None
                if group and group.name not in seen and any(run.late is not None for run in group.runs):
                    seen.add(group.name)
                    line = (*group.place, cell.row.name, *_numbers(group), late_gain(table, cell))
                    places.setdefault(group.place, []).append(line)
    return [line for lines in places.values() for line in lines]


def _numbers(group: Group) -> tuple[str, ...]:
    runs = [run for run in group.runs if run.late is not None]
    epochs = f"{median(run.best_epoch for run in runs):.0f}, {median(run.epochs for run in runs):.0f}"
    best, last = (
        number(100 * spread(values).mean) for values in ([run.val for run in runs], list(_late(group).values()))
    )
    return str(len(runs)), epochs, best, last


def late_gain(table: Table, cell: Cell) -> str:
    """The mean of the last epochs minus plain training's, paired, with its 95 % interval; empty where there is none."""
    against = table.against(cell, "plain")
    if against is None or cell.filled is None or against.reference.filled is None:
        return ""
    return str(paired_scores(_late(cell.filled.group), _late(against.reference.filled.group), against.folds) or "")


def _late(group: Group) -> dict[tuple[int, int], float]:
    return {run.pair: run.late for run in group.runs if run.late is not None}
