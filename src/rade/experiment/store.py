"""The store of finished runs: one SQLite file, and its text form, a folder that people and git can read. Without torch.

The file has one writer at a time and any number of readers; a run is there whole or not at all. The text form is
`runs.csv` (one line per run), `curves/DATASET.jsonl.gz` and `provenance.json`; it is read like the file and written
whole by `export`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from rade.errors import EnvironmentFault, RunError, complaint
from rade.train.files import load_run_record, save_bytes, sole_writer
from rade.train.record import Curves, RunRecord, plain

_CURVES = TypeAdapter(Curves)
DEFAULT = Path("results.sqlite")
_SCHEMA = "CREATE TABLE IF NOT EXISTS runs (key TEXT PRIMARY KEY, record TEXT NOT NULL, curves TEXT NOT NULL)"
_DAMAGED = "is damaged or was not written by rade; name another store, or delete this one to start afresh"
# Columns of runs.csv that hold one field of a record each, beside those that are taken apart below.
_PLAIN = ("protocol", "run", "seed", "metric", "folds", "val", "test", "best_epoch", "epochs", "skipped")
_TIMING = ("seconds", "seconds_per_epoch", "finished")
_JSON = ("quality", "variance")
_MADE = ("versions", "commit", "dirty", "machine")
_NAMES = ("dataset", "backbone", "method")
_SHARED = ("made", "data", "settings")  # kept once for all runs that have the same
_TEXT = ("key", *_NAMES, "protocol", "metric", "finished", *_SHARED, "command")
COLUMNS = ("key", *_NAMES, *_PLAIN, *_TIMING, *_JSON, "numerics", "threads", *_SHARED, "command")


class Store:
    """A store in one SQLite file, made when it is first written to."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.work = self.path.with_name(f"{self.path.name}.work")  # checkpoints of runs that go on

    def records(self, *, curves: bool = True, **wanted: str | Collection[str]) -> list[RunRecord]:
        """The runs whose settings (`dataset`, `method`, `backbone`, `protocol`, …) are those given, or among them.

        Sorted by data set, backbone and method. Without `curves` records have no `history` and are read much faster.
        """
        sets = {name: {value} if isinstance(value, str) else set(value) for name, value in wanted.items() if value}
        found = [one for one in self._read(curves) if all(one.flat[name] in values for name, values in sets.items())]
        return sorted(found, key=lambda one: one.place)

    def keys(self) -> set[str]:
        """The names of all finished runs."""
        return {key for (key,) in self._rows("SELECT key FROM runs")}

    def put(self, record: RunRecord) -> bool:
        """Keep a run; whether it was new. One that is there already stays as it is."""
        return self.merge([record]) > 0

    def merge(self, records: Iterable[RunRecord]) -> int:
        """Keep the runs of others, all or none; how many were new."""
        new = 0
        with self._changing() as database:
            for record in records:
                text = record.model_copy(update={"history": {}}).to_json()
                values = (record.key, text, json.dumps(record.history))
                new += database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", values).rowcount
        return new

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Be the only writer; another one is refused. Readers are not."""
        busy = f"somebody else writes to {self.path}; wait for that, or choose another file with --store"
        with sole_writer(self.work / "writer", busy):
            self.keys()
            with self._changing():
                pass  # a file that cannot be used is found out now
            yield self
        with suppress(OSError):
            self.work.rmdir()  # unless it holds checkpoints

    def _read(self, curves: bool) -> Iterator[RunRecord]:
        columns = "record, curves" if curves else "record"
        for text, *rest in self._rows(f"SELECT {columns} FROM runs"):
            with _told(self.path):
                record = RunRecord.model_validate_json(text)
                history = _CURVES.validate_json(rest[0]) if rest else {}
            yield record.model_copy(update={"history": history})

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        # Not read-only: a reader must be able to take back what a killed writer left half-done.
        with _told(self.path), closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True)) as base:
            begun = base.execute("SELECT 1 FROM sqlite_master").fetchone()  # or its first writer was killed at once
            return base.execute(query).fetchall() if begun else []

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on the disk when it ends."""
        with _told(self.path), closing(sqlite3.connect(self.path, timeout=60)) as base, base:
            base.execute(_SCHEMA)
            yield base


class TextStore(Store):
    """The text form of a store, to be read only."""

    def keys(self) -> set[str]:
        return {line["key"] for line in self._lines()}

    def writing(self) -> NoReturn:
        """Refuse."""
        raise RunError(
            f"{self.path} is the text form of a store, which is not written to; "
            f"rade results NEW.sqlite merge {self.path} makes a store of it"
        )

    def _read(self, curves: bool) -> Iterator[RunRecord]:
        with _told(path := self.path / "provenance.json"):
            known = json.loads(path.read_bytes())
        histories = dict(self._histories()) if curves else {}
        for number, line in enumerate(self._lines(), start=2):
            with _told(f"{self.path / 'runs.csv'}, line {number},"):
                history = histories[line["key"]] if curves else {}
                record = RunRecord.model_validate({**_record_values(line, known), "history": history})
            yield record

    def _lines(self) -> list[dict[str, str]]:
        with _told(path := self.path / "runs.csv"), path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def _histories(self) -> Iterator[tuple[str, dict[str, list[float]]]]:
        for path in sorted((self.path / "curves").glob("*.jsonl.gz")):
            with _told(path):
                lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
                found = [(curves.pop("key"), curves) for curves in lines]
            yield from found


@contextmanager
def _told(what: object) -> Iterator[None]:
    """What breaks in reading or writing, as a sentence; what a file holds that rade does not write, with its place."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise EnvironmentFault(f"cannot use the store {what}: {error}; what it held is still there") from None
        raise RunError(f"{what} {_DAMAGED}") from None
    except ValidationError as error:
        raise RunError(f"{what} is not a run of rade: {complaint(error)}") from None
    except OSError as error:
        raise RunError(f"cannot read {what}: {error.strerror or error}") from None
    except (sqlite3.Error, EOFError, ValueError, LookupError, TypeError, AttributeError, zlib.error):
        raise RunError(f"{what} {_DAMAGED}") from None


def open_store(path: str | Path) -> Store:
    """The store at a path: a SQLite file, whether it is there or not, or a folder with the text form."""
    path = Path(path)
    if path.is_dir() and not (path / "runs.csv").is_file():
        raise RunError(
            f"{path} is a folder without runs.csv; a store is one file, or a folder that rade results wrote; "
            f"rade results NEW.sqlite merge {path} takes in what rade train left"
        )
    return TextStore(path) if path.is_dir() else Store(path)


def existing(path: str | Path) -> Store:
    """The store at a path, which must be there."""
    if not Path(path).exists():
        raise RunError(f"there is no store at {path}; rade reproduce makes one, or name another file")
    return open_store(path)


def usual() -> Path:
    """The store that is meant where none is named: the default one, or the text form in `results`."""
    return DEFAULT if DEFAULT.exists() or not Path("results").is_dir() else Path("results")


def records_below(path: str | Path) -> list[RunRecord]:
    """The runs of a store, or of the folders that `rade train` left."""
    found = sorted(Path(path).rglob("result.json"))
    if found and not (Path(path) / "runs.csv").exists():
        return [load_run_record(file) for file in found]
    return existing(path).records()


def export(store: Store, folder: Path) -> int:
    """Write the text form of a store: how many runs. A folder with runs that the store lacks is refused."""
    records = store.records()
    lacking = TextStore(folder).keys() - {one.key for one in records} if (folder / "runs.csv").exists() else set()
    if lacking:
        raise RunError(
            f"{folder} holds {len(lacking)} runs that {store.path} lacks, and they would be lost; "
            f"take them over with rade results {store.path} merge {folder}"
        )
    known: dict[str, dict[str, Any]] = {name: {} for name in _SHARED}
    curves: dict[str, list[str]] = {}
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow(_line(record, known))
        curves.setdefault(record.place[0], []).append(plain({"key": record.key, **record.history}))
    for dataset, lines in curves.items():
        packed = gzip.compress("\n".join([*lines, ""]).encode(), mtime=0)
        save_bytes(folder / "curves" / f"{dataset}.jsonl.gz", packed)
    shared = json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False)
    save_bytes(folder / "provenance.json", f"{shared}\n".encode())
    save_bytes(folder / "runs.csv", table.getvalue().encode())
    return len(records)


def _line(record: RunRecord, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A run as a line of runs.csv; what many runs share goes to provenance.json, named by its content."""
    values = record.model_dump(exclude={"history"})
    settings = values["settings"]
    line = values | {name: settings.pop(name) for name in _NAMES} | values["timing"]
    line["made"] = {name: values[name] for name in _MADE}
    words = {"made": record.commit, "data": record.data.name, "settings": record.method}
    for what, word in words.items():
        name = f"{word}-{hashlib.sha256(plain(line[what]).encode()).hexdigest()[:8]}"
        known[what][name], line[what] = line[what], name
    line |= {name: plain(values[name]) if values[name] else "" for name in _JSON}
    return {name: line[name] for name in COLUMNS}


def _record_values(line: dict[str, str], known: dict[str, Any]) -> dict[str, Any]:
    """The values of a record from its line."""
    values: dict[str, Any] = {name: text if name in _TEXT else json.loads(text or "{}") for name, text in line.items()}
    made, data, settings = (known[what][values.pop(what)] for what in _SHARED)
    settings = {**settings, **{name: values.pop(name) for name in _NAMES}}
    values["timing"] = {name: values.pop(name) for name in _TIMING}
    return {**values, **made, "data": data, "settings": settings}
