"""Runs from a store."""

from pathlib import Path

from rade.errors import RadeError
from rade.experiment.store import existing
from rade.report.rows import Problem, RowError, Run, read_row


class StoreError(RadeError):
    """A store that is not there or cannot be read."""


def read_folder(folder: Path) -> tuple[tuple[Run, ...], tuple[Problem, ...]]:
    """All runs of a store, ordered by key; one that cannot be used is named and skipped."""
    runs: list[Run] = []
    problems = []
    for record in existing(folder).records():
        try:
            runs.append(read_row(record.model_dump()))
        except RowError as error:
            problems.append(Problem(record.key, str(error)))
    return tuple(sorted(runs, key=lambda run: run.key)), tuple(problems)
