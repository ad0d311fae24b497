"""Rows from a folder with one file per finished run."""

from pathlib import Path
from typing import Any

from rade.errors import RadeError
from rade.report.rows import Problem, RowError, Run, read_row
from rade.train.row import decode
from rade.train.row_files import content_of, row_files


class StoreError(RadeError):
    """A store that is not there or cannot be read."""


def read_folder(folder: Path) -> tuple[tuple[Run, ...], tuple[Problem, ...]]:
    """All runs of a store, ordered by key; a file that is damaged or foreign is named and skipped."""
    if not folder.is_dir():
        raise StoreError(f"there is no folder {folder}; name the store that rade train or rade reproduce filled")
    runs: list[Run] = []
    problems: list[Problem] = []
    for path in row_files(folder):
        try:
            runs.append(read_row(_load(path)))
        except RowError as error:
            problems.append(Problem(path.name, str(error)))
    return tuple(sorted(runs, key=lambda run: run.key)), tuple(problems)


def _load(path: Path) -> Any:
    try:
        return decode(content_of(path))
    except OSError as error:
        raise RowError(f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RowError(str(error)) from None
