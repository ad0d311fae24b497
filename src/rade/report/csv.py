"""The report as comma-separated tables: cells, comparisons, and every run."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rade.report.build import Report
from rade.report.rows import Run

CELLS = (
    "table", "backbone", "method", "name", "dataset", "mean", "std", "runs", "paper_mean", "paper_std",
    "difference_to_paper", "selection", "departures",
)  # fmt: skip
COMPARISONS = (
    "table", "backbone", "name", "dataset", "against", "reference", "difference", "low", "high", "effect", "p",
    "p_holm", "family", "pairs", "folds", "repetitions", "seeds_for_80_power", "verdict", "sentence",
)  # fmt: skip
RUNS = (
    "key", "tables", "dataset", "backbone", "method", "protocol", "first_seed", "run", "seed", "metric", "folds",
    "val", "test", "train", "best_epoch", "epochs", "last_p", "last_q", "seconds", "seconds_per_epoch", "finished",
    "numerics", "commit", "dirty", "threads", "settings", "command", "test_log_loss", "test_calibration_error",
    "variance_by_drop", "variance_by_add",
)  # fmt: skip


def cells(report: Report) -> str:
    """One line per cell of every table, run or not."""
    lines = []
    for table in report.tables:
        for cell in table.cells:
            found, paper = cell.filled, cell.published
            ours = (found.spread.mean, found.spread.std, len(found.group.runs)) if found else (None, None, 0)
            theirs = (paper.mean, paper.std) if paper else (None, None)
            told = (found.scores.rule, "; ".join(found.departures)) if found and table.is_score else ("", "")
            head = (table.experiment.name, cell.backbone, cell.row.method, cell.row.name, cell.dataset)
            lines.append((*head, *ours, *theirs, cell.gap, *told))
    return _written(CELLS, lines)


def comparisons(report: Report) -> str:
    """One line per paired comparison, differences in points."""
    lines = []
    for table in report.tables:
        for one in table.comparisons:
            found = one.result
            head = (table.experiment.name, one.cell.backbone, one.cell.row.name, one.cell.dataset, one.kind)
            other = "" if one.kind == "plain" else one.reference.row.name
            numbers = (found.mean, found.low, found.high, found.effect, found.p, one.adjusted, one.family, found.count)
            lines.append((*head, other, *numbers, one.folds, one.repetitions, one.needed, one.code, one.verdict))
    return _written(COMPARISONS, lines)


def rows(report: Report) -> str:
    """One line per run, nothing left out; curves stay in the store."""
    return _written(RUNS, [tuple(record(run, report).values()) for run in report.runs])


def record(run: Run, report: Report) -> dict[str, Any]:
    """A run as flat values; scores are fractions."""
    settings = run.settings
    values = (
        run.key, " ".join(report.homes.get(run.key, ())), settings["dataset"], settings["backbone"],
        settings["method"], run.protocol, settings["seed"], run.run, run.seed, run.metric, run.folds, run.val,
        run.test, run.train, run.best_epoch, run.epochs, run.last("p"), run.last("q"), run.seconds,
        run.seconds_per_epoch, run.finished, run.numerics, run.made.commit, run.made.dirty, run.made.threads,
        json.dumps(settings, sort_keys=True), run.made.command, run.quality.get("log_loss"),
        run.quality.get("calibration_error"), run.variance.get("drop"), run.variance.get("add"),
    )  # fmt: skip
    return dict(zip(RUNS, values, strict=True))


def _written(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{value:.10g}" if isinstance(value, float) else value for value in line] for line in lines)
    return file.getvalue()
