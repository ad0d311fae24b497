"""The store of finished runs: a folder with one file per run, named by what decides its numbers. Without torch.

Every file is written beside its place and renamed, so a reader finds all of it or nothing; names come from content, so
writers on many machines never meet. There are no locks and no index: a folder copied into another is merged.
Finished rows may be compressed (`gzip store/*.json`) and are read all the same.
The row is the `result.json` of `rade train`; its scores are fractions, 0.815 for 81.5 %.
"""

import gzip
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from rade.train.errors import RunError
from rade.train.files import ensure_writable, write_whole
from rade.train.record import RunRecord as Row

# Where unfinished runs keep their checkpoints.
WORK = ".work"
# A temporary file this old belongs to a writer that was killed, in seconds.
_ABANDONED = 24 * 3600
SUFFIXES = (".json", ".json.gz")  # the first wins where both are there
_KEY = re.compile("[0-9a-f]{32}")


class Reading(NamedTuple):
    """Rows, and a sentence for each file that is none."""

    rows: list[Row]
    problems: list[str]


class Store:
    """A folder of finished runs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def rows(
        self,
        *,
        dataset: str | Collection[str] = (),
        method: str | Collection[str] = (),
        backbone: str | Collection[str] = (),
        protocol: str | Collection[str] = (),
        curves: bool = True,
    ) -> Reading:
        """The runs whose settings are among those given (all, where nothing is), in the order of their keys.

        A damaged or foreign file is told and skipped. Without `curves` rows have no `history`, are read ten times
        faster and take a hundredth of the memory; `history` reads those of single runs.
        """
        wanted = {"dataset": dataset, "method": method, "backbone": backbone}
        names = {name: _as_set(value) for name, value in wanted.items() if value}
        protocols = _as_set(protocol)

        def chosen(row: Row) -> bool:
            fits = all(row["settings"].get(name) in values for name, values in names.items())
            return fits and (not protocols or row["protocol"] in protocols)

        return _read(_row_files(self.folder), curves, chosen)

    def history(self, key: str) -> dict[str, list[float]]:
        """The curves of one run."""
        try:
            found: dict[str, list[float]] = _load(self._file(key), curves=True)["history"]
        except (OSError, ValueError):
            raise RunError(f"{self.path(key)} is missing or damaged; rade results names damaged files") from None
        return found

    def has(self, key: str) -> bool:
        """Whether there is a whole, unchanged row of this name."""
        try:
            return bool(_load(self._file(key), curves=False))
        except (OSError, ValueError):
            return False

    def put(self, row: Row) -> bool:
        """Keep a row; whether it was new. A run that is there already stays as it is."""
        if self.has(row["key"]):
            return False
        write_whole(self.path(row["key"]), lambda file: file.write(row.to_json().encode()))
        return True

    def merge(self, other: str | Path) -> tuple[int, list[str]]:
        """Take over the rows of another store or of folders that `rade train` left: how many were new, and problems."""
        folder = Path(other)
        if not folder.is_dir():
            raise RunError(f"there is no folder {folder} to merge; name a store or a folder written by rade train")
        self.open()
        files = _row_files(folder)
        if not any(_KEY.fullmatch(_name_of(path)) for path in files):  # the folder of rade train, not a store
            files = sorted(folder.rglob("result.json"))
        rows, problems = _read(files, True, lambda row: True)
        return sum(self.put(row) for row in rows), problems

    def path(self, key: str) -> Path:
        """The file that a run is written to."""
        return self.folder / f"{key}.json"

    def work(self, key: str) -> Path:
        """The folder of a run that is going on."""
        return self.folder / WORK / key

    def open(self) -> "Store":
        """Make the folder, refuse one that cannot be written to, and clear what killed writers left."""
        try:
            ensure_writable(self.folder)
        except RunError as error:
            reason = str(error).partition(";")[0]
            raise RunError(f"{reason}; choose another folder for the store") from None
        for path in self.folder.glob(".*.json.*"):
            _remove_abandoned(path)
        return self

    def existing(self) -> "Store":
        """Refuse a folder that is not there."""
        if not self.folder.is_dir():
            raise RunError(f"there is no store at {self.folder}; rade reproduce makes one, or name another folder")
        return self

    def _file(self, key: str) -> Path:
        """The file that a run is read from."""
        files = [self.folder / f"{key}{suffix}" for suffix in SUFFIXES]
        return next((path for path in files if path.exists()), self.path(key))


def _read(files: Collection[Path], curves: bool, chosen: Callable[[Row], bool]) -> Reading:
    reading = Reading([], [])
    for path in files:
        try:
            row = _load(path, curves)
        except OSError as error:
            reading.problems.append(f"{path} cannot be read: {error.strerror}")
        except ValueError as error:
            reading.problems.append(f"{path} {error}")
        else:
            if chosen(row):
                reading.rows.append(row)
    return reading


def _load(path: Path, curves: bool) -> Row:
    row = Row.from_json(_content_of(path))
    if not curves:
        row = row.model_copy(update={"history": {}})
    if _name_of(path) not in (row["key"], "result"):
        raise ValueError(f"holds the run {row['key']}; a file of the store is named by its key")
    return row


def _row_files(folder: Path) -> list[Path]:
    """Every file that may hold a row, in the order of names; of a run that is there twice, the one to read."""
    found: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for path in folder.glob(f"*{suffix}"):
            found.setdefault(path.name.removesuffix(suffix), path)
    return [found[name] for name in sorted(found) if not name.startswith(".")]


def _name_of(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".json")


def _content_of(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise ValueError("is torn or not compressed by gzip") from None


def _remove_abandoned(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _ABANDONED:
            path.unlink(missing_ok=True)
    except OSError:
        pass  # another process was faster, or it is not ours to remove


def _as_set(value: str | Collection[str]) -> frozenset[str]:
    return frozenset([value] if isinstance(value, str) else value)


def unfinished(store: Store) -> Iterator[str]:
    """The keys of runs that left a checkpoint."""
    for path in (store.folder / WORK).glob("*/checkpoint.pt"):
        yield path.parent.name
