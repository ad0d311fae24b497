"""A report's files by format, written whole or not at all."""

import os
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from rade.report import csv
from rade.report.build import Report
from rade.report.latex import latex
from rade.report.markdown import headline, markdown
from rade.report.page import ReportError, page

FORMATS: dict[str, dict[str, Callable[[Report], str]]] = {
    "html": {"report.html": page},
    "md": {"results.md": markdown, "headline.md": headline},
    "tex": {"tables.tex": latex},
    "csv": {"cells.csv": csv.cells, "comparisons.csv": csv.comparisons, "rows.csv": csv.rows},
}


def check_formats(names: Collection[str]) -> tuple[str, ...]:
    """The formats asked for, in a fixed order; an unknown one is refused."""
    for name in names:
        if name not in FORMATS:
            raise ReportError(f"unknown format '{name}'; there are {', '.join(FORMATS)}")
    return tuple(name for name in FORMATS if name in names)


def write(report: Report, folder: Path, formats: Collection[str] = tuple(FORMATS)) -> tuple[Path, ...]:
    """Write the files of these formats; the same runs give the same bytes."""
    files = {name: make(report) for chosen in check_formats(formats) for name, make in FORMATS[chosen].items()}
    return tuple(_whole(folder / name, text) for name, text in files.items())


def _whole(path: Path, text: str) -> Path:
    """Beside the file, then renamed: a reader finds the old file or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ReportError(f"cannot write {path}: {error.strerror}; choose another folder with --out") from None
    return path


def _umask() -> int:
    """What the user keeps from others; temporary files ignore it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
