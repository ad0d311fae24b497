"""Rows from a store of finished runs."""

from pathlib import Path

from rade.errors import RadeError
from rade.experiment.store import Store
from rade.report.rows import Problem, RowError, Run, read_row


class StoreError(RadeError):
    """A store that is not there or cannot be read."""


def read_folder(folder: Path) -> tuple[tuple[Run, ...], tuple[Problem, ...]]:
    """All runs of a store, ordered by key; a file that is damaged or foreign is named and skipped."""
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; name the store that rade train or rade reproduce filled")
    records, unread = Store(folder).rows()
    runs: list[Run] = []
    problems = []
    for sentence in unread:
        name, _, reason = sentence.removeprefix(f"{folder}/").partition(" ")
        problems.append(Problem(name, reason))
    for record in records:
        try:
            runs.append(read_row(record.model_dump()))
        except RowError as error:
            problems.append(Problem(record.key, str(error)))
    return tuple(sorted(runs, key=lambda run: run.key)), tuple(problems)
