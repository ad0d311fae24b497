"""Experiments as data: which cells a table has, how each one is trained, and what the paper printed there.

A table is one TOML file, packaged or a researcher's own; the schema is in docs/experiments.md. Nothing here imports
torch: reports read tables without it, so names of data sets, methods and backbones are checked where they are used.
"""

import difflib
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from rade.errors import RadeError
from rade.train.measures import MEASURES, SCORE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).with_name("tables")
# Keys of a row or of the table itself, which settings would contradict.
RESERVED = ("dataset", "backbone", "method", "protocol", "options", "runs")


class TableError(RadeError, ValueError):
    """A table that does not exist, cannot be read, or contradicts itself."""


@dataclass(frozen=True)
class Published:
    """Mean and standard deviation as the paper prints them."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean) or not 0 <= self.std < math.inf:
            raise TableError(f"mean and standard deviation must be finite, the latter ≥ 0, got {self.mean}, {self.std}")


@dataclass(frozen=True)
class Row:
    """One line of a table: a method, its settings on top of the protocol, what is searched, what the paper has.

    settings: flat, as `rade train` takes them; a mapping in place of a value chooses by data set.
    search: name → candidates; every combination is tried, and the best one by `selection` is the row's.
    published: backbone → data set → numbers, where there are any.
    """

    name: str
    method: str
    backbones: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    selection: str = "validation"
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"row '{self.name}'"
        _require_names(self.backbones, f"{where}: backbones")
        for key in (*self.settings, *self.search):
            if key in RESERVED:
                raise TableError(f"{where}: '{key}' is no setting of a row; it belongs to the row or the table itself")
        for key, candidates in self.search.items():
            if key in self.settings:
                raise TableError(f"{where}: '{key}' stands in settings and in search; keep one")
            if not candidates:
                raise TableError(f"{where}: search.{key} must list at least one candidate")
        if self.selection != "validation":
            raise TableError(
                f"{where}: selection must be 'validation', got {self.selection!r}; "
                "a setting chosen on test data is no result"
            )
        _require_known(self.published, self.backbones, f"{where}: published", "backbone")

    def settings_on(self, dataset: str) -> dict[str, Any]:
        """The flat settings on one data set; where it is not listed the protocol's value stands.

        >>> Row("wide", "none", ("gcn",), {"hidden": {"cora": 512}, "layers": 3}).settings_on("pubmed")
        {'layers': 3}
        """
        chosen = {}
        for name, value in self.settings.items():
            if not isinstance(value, Mapping):
                chosen[name] = value
            elif dataset in value:
                chosen[name] = value[dataset]
        return chosen

    def candidates(self) -> tuple[dict[str, Any], ...]:
        """Every combination of the search; one empty combination where nothing is searched."""
        return tuple(dict(zip(self.search, values)) for values in product(*self.search.values()))


@dataclass(frozen=True)
class Experiment:
    """A table: rows by data sets, trained under one protocol.

    label: of the paper's table, empty for experiments beyond it.
    seeds: runs of a cell unless the user asks for others; data sets with folds run all folds.
    measure: what is compared, one of `MEASURES`; note: what a reader must know beside the numbers.
    """

    name: str
    title: str
    label: str
    protocol: str
    seeds: int
    backbones: tuple[str, ...]
    datasets: tuple[str, ...]
    rows: tuple[Row, ...]
    measure: str = SCORE
    note: str = ""

    def __post_init__(self) -> None:
        _require_names(self.backbones, "backbones")
        _require_names(self.datasets, "datasets")
        _require_names(tuple(row.name for row in self.rows), "rows")
        if self.seeds < 1:
            raise TableError(f"seeds must be at least 1, got {self.seeds}")
        if self.measure not in MEASURES:
            raise TableError(f"measure must be one of {', '.join(MEASURES)}, got {self.measure!r}")
        for row in self.rows:
            by_dataset = {f"settings.{name}": value for name, value in row.settings.items()}
            by_dataset |= {f"published.{backbone}": numbers for backbone, numbers in row.published.items()}
            for name, value in by_dataset.items():
                if isinstance(value, Mapping):
                    _require_known(value, self.datasets, f"row '{row.name}': {name}", "data set")


@dataclass(frozen=True)
class Cell:
    """One row on one data set with one backbone: what is run once per seed or fold."""

    experiment: Experiment
    row: Row
    dataset: str
    backbone: str

    @property
    def settings(self) -> dict[str, Any]:
        """Flat settings on top of the protocol."""
        return self.row.settings_on(self.dataset)

    @property
    def published(self) -> Published | None:
        """The paper's numbers, where it has any."""
        return self.row.published.get(self.backbone, {}).get(self.dataset)

    def __str__(self) -> str:
        return f"{self.experiment.name}, row '{self.row.name}', {self.dataset}, {self.backbone}"


def cells(experiment: Experiment) -> Iterator[Cell]:
    """All cells of a table: row by row, each backbone over all data sets."""
    for row in experiment.rows:
        for backbone, dataset in product(row.backbones, experiment.datasets):
            yield Cell(experiment, row, dataset, backbone)


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
    """A table from a file, named as the file is; what is wrong is told with its place."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with thousands of digits
        raise TableError(f"{path} is not valid TOML: {error}") from None
    try:
        return _experiment(path.stem, raw)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


# What the keys of a table and of its rows hold, in words and as a test.
_KINDS: dict[str, tuple[str, Any]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "count": ("a whole number", lambda value: type(value) is int),
    "names": (
        'a list of names such as ["gcn"]',
        lambda value: isinstance(value, list | tuple) and all(isinstance(name, str) for name in value),
    ),
    "table": ("a table", lambda value: isinstance(value, dict)),
    "choices": ("a list of at least one value", lambda value: isinstance(value, list) and value),
    "rows": (
        "a list of [[rows]] tables",
        lambda value: isinstance(value, list) and all(isinstance(row, dict) for row in value),
    ),
    "pair": (
        "[mean, std]",
        lambda value: isinstance(value, list) and [type(number) in (int, float) for number in value] == [True, True],
    ),
}
_TABLE = {"title": "text", "seeds": "count", "backbones": "names", "datasets": "names", "rows": "rows"}
_TABLE_MAY = {"label": "text", "protocol": "text", "measure": "text", "note": "text", "vary": "table"}
_ROW = {"name": "text", "method": "text"}
_ROW_MAY = {"backbones": "names", "settings": "table", "search": "table", "selection": "text", "published": "table"}


def _checked(where: str, values: Mapping[str, Any], must: Mapping[str, str], may: Mapping[str, str]) -> dict[str, Any]:
    """The values, each of its kind, none missing and none unknown."""
    known = {**must, **may}
    for key in must:
        if key not in values:
            raise TableError(f"{where} must have the key '{key}'")
    for key, value in values.items():
        if key not in known:
            raise TableError(f"{where} has no key '{key}'{_near(key, known)} Its keys: {', '.join(known)}")
        _check(f"{where}: {key}", known[key], value)
    return dict(values)


def _check(what: str, kind: str, value: Any) -> None:
    words, fits = _KINDS[kind]
    if not fits(value):
        raise TableError(f"{what} must be {words}, got {value!r}")


def _experiment(name: str, raw: Mapping[str, Any]) -> Experiment:
    values = {"label": "", "protocol": "released", **_checked("the table", raw, _TABLE, _TABLE_MAY)}
    values["backbones"], values["datasets"] = tuple(values["backbones"]), tuple(values["datasets"])
    vary = _choices("the table: vary", values.pop("vary", {}))
    rows = [_row(number, row, values["backbones"]) for number, row in enumerate(values.pop("rows"), start=1)]
    return Experiment(name=name, rows=tuple(varied for row in rows for varied in _varied(row, vary)), **values)


def _row(number: int, raw: Mapping[str, Any], backbones: tuple[str, ...]) -> Row:
    where = f"row '{raw['name']}'" if "name" in raw else f"row number {number}"
    values = _checked(where, raw, _ROW, _ROW_MAY)
    values["backbones"] = tuple(values.get("backbones", backbones))
    values["search"] = _choices(f"{where}: search", values.get("search", {}))
    values["published"] = {
        backbone: _published(f"{where}, published: {backbone}", pairs)
        for backbone, pairs in values.get("published", {}).items()
    }
    return Row(**values)


def _choices(what: str, given: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    for name, candidates in given.items():
        _check(f"{what}.{name}", "choices", candidates)
    return {name: tuple(candidates) for name, candidates in given.items()}


def _published(where: str, pairs: Any) -> dict[str, Published]:
    _check(where, "table", pairs)
    found = {}
    for dataset, pair in pairs.items():
        _check(f"{where}.{dataset}", "pair", pair)
        try:
            found[dataset] = Published(*map(float, pair))
        except TableError as error:
            raise TableError(f"{where}.{dataset}: {error}") from None
    return found


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


def _require_names(names: tuple[str, ...], where: str) -> None:
    if not names:
        raise TableError(f"{where} must hold at least one name")
    for name in names:
        if not name:
            raise TableError(f"{where} must not hold an empty name")
        if names.count(name) > 1:
            raise TableError(f"{where} must differ, but '{name}' is there twice")


def _require_known(given: Mapping[str, Any], known: tuple[str, ...], where: str, what: str) -> None:
    for name in given:
        if name not in known:
            raise TableError(f"{where} names the {what} '{name}', which is none of {', '.join(known)}")


def _near(given: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(given, list(known), n=3, cutoff=0.5)
    swapped = [name for name in close if sorted(name) == sorted(given)]
    return f"; did you mean '{(swapped or close)[0]}'?" if close else "."
