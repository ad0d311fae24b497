"""Tables from TOML: those of the package by name, a researcher's own by path; what is wrong is told in one sentence.

The schema is in docs/experiments.md; the rules that hold for any table are in `rade.experiment.values`.
"""

import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from rade.experiment.values import Cell, Experiment, Published, Row, TableError, cells

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Cell", "Experiment", "Published", "Row", "TableError", "cells", "load", "names", "read"]

FOLDER = Path(__file__).with_name("tables")


def names() -> tuple[str, ...]:
    """The names of the packaged tables."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


def load(name: str) -> Experiment:
    """A packaged table by name.

    >>> load("node-gcn").rows[0].published["gcn"]["cora"]
    Published(mean=80.1, std=0.64)
    """
    if name not in names():
        raise TableError(f"unknown table '{name}'{_near(name, names())} Known: {', '.join(names())}")
    return read(FOLDER / f"{name}.toml")


def find(name: str) -> Experiment:
    """A table of one's own by the path of its file, ``mine.toml``, or a packaged one by its name."""
    return read(name) if name.endswith(".toml") else load(name)


def read(path: str | Path) -> Experiment:
    """A table from a file, named as the file is."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path} is not valid TOML: {error}") from None
    try:
        return _experiment(path.stem, _Fields("the table", raw))
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


class _Fields:
    """A TOML table being read: each key is taken once and checked for its kind, and none may be left."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where, self.left = where, dict(values)
        self.known: list[str] = []

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value

    def count(self, key: str) -> int:
        value = self._take(key, None)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number", value)
        return value

    def names(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._take(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise self._wrong(key, 'a list of names such as ["gcn"]', value)
        return tuple(value)

    def table(self, key: str) -> dict[str, Any]:
        value = self._take(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table", value)
        return value

    def choices(self, key: str) -> dict[str, tuple[Any, ...]]:
        value = self.table(key)
        for name, candidates in value.items():
            if not isinstance(candidates, list) or not candidates:
                raise self._wrong(f"{key}.{name}", "a list of at least one value", candidates)
        return {name: tuple(candidates) for name, candidates in value.items()}

    def rows(self) -> list[dict[str, Any]]:
        value = self._take("rows", None)
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise self._wrong("rows", "a list of [[rows]] tables", value)
        return value

    def finish(self) -> None:
        for key in self.left:
            raise TableError(
                f"{self.where} has no key '{key}'{_near(key, self.known)} Its keys: {', '.join(self.known)}"
            )

    def _take(self, key: str, default: Any) -> Any:
        self.known.append(key)
        if key not in self.left and default is None:
            raise TableError(f"{self.where} must have the key '{key}'")
        return self.left.pop(key, default)

    def _wrong(self, key: str, expected: str, value: Any) -> TableError:
        return TableError(f"{self.where}: {key} must be {expected}, got {value!r}")


def _experiment(name: str, fields: _Fields) -> Experiment:
    backbones = fields.names("backbones")
    vary = fields.choices("vary")
    rows = [_row(number, raw, backbones) for number, raw in enumerate(fields.rows(), start=1)]
    experiment = Experiment(
        name=name,
        title=fields.text("title"),
        label=fields.text("label", ""),
        protocol=fields.text("protocol", "released"),
        seeds=fields.count("seeds"),
        backbones=backbones,
        datasets=fields.names("datasets"),
        rows=tuple(varied for row in rows for varied in _varied(row, vary)),
        measure=fields.text("measure", "score"),
        note=fields.text("note", ""),
    )
    fields.finish()
    return experiment


def _row(number: int, raw: Mapping[str, Any], backbones: tuple[str, ...]) -> Row:
    fields = _Fields(f"row '{raw['name']}'" if "name" in raw else f"row number {number}", raw)
    row = Row(
        name=fields.text("name"),
        method=fields.text("method"),
        backbones=fields.names("backbones", backbones),
        settings=fields.table("settings"),
        search=fields.choices("search"),
        selection=fields.text("selection", "validation"),
        published=_published(fields),
    )
    fields.finish()
    return row


def _published(fields: _Fields) -> dict[str, dict[str, Published]]:
    numbers = _Fields(f"{fields.where}, published", fields.table("published"))
    by_backbone = {backbone: numbers.table(backbone) for backbone in tuple(numbers.left)}
    return {
        backbone: {dataset: _pair(numbers.where, backbone, dataset, pair) for dataset, pair in pairs.items()}
        for backbone, pairs in by_backbone.items()
    }


def _pair(where: str, backbone: str, dataset: str, pair: Any) -> Published:
    if not isinstance(pair, list) or [type(number) in (int, float) for number in pair] != [True, True]:
        raise TableError(f"{where}: {backbone}.{dataset} must be [mean, std], got {pair!r}")
    try:
        return Published(*map(float, pair))
    except TableError as error:
        raise TableError(f"{where}: {backbone}.{dataset}: {error}") from None


def _varied(row: Row, vary: Mapping[str, tuple[Any, ...]]) -> Iterable[Row]:
    """The row once per combination of the varied settings, which its name then tells."""
    if vary and row.published:
        raise TableError(f"row '{row.name}': a table with [vary] has no published numbers; write its rows out")
    for values in product(*vary.values()):
        chosen = dict(zip(vary, values))
        for key in chosen.keys() & (row.settings.keys() | row.search.keys()):
            raise TableError(f"row '{row.name}': '{key}' is varied by the table and set by the row; keep one")
        told = "".join(f", {key} {value}" for key, value in chosen.items())
        yield replace(row, name=row.name + told, settings={**row.settings, **chosen})


def _near(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=3, cutoff=0.5)
    swapped = [name for name in close if sorted(name) == sorted(given)]
    return f"; did you mean '{(swapped or close)[0]}'?" if close else "."
