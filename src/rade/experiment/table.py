"""Experiments as data: which cells a table has, how each one is trained, and what the paper printed there.

A table is one TOML file, packaged or a researcher's own; the schema is in docs/reproduce.md. Nothing here imports
torch: reports read tables without it, so names of data sets, methods and backbones are checked where they are used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from rade.errors import RadeError, complaint, unknown
from rade.train.protocol import read_toml
from rade.train.record import MEASURES, SCORE

FOLDER = Path(__file__).with_name("tables")
PLAIN = "none"  # the method that is the backbone alone
# Keys of a row or of the table itself, which settings would contradict.
RESERVED = ("dataset", "backbone", "method", "protocol", "options", "runs")


class TableError(RadeError, ValueError):
    """A table that does not exist, cannot be read, or contradicts itself."""


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names must differ, but '{name}' is there twice")
    return names


def _known(given: Mapping[str, Any], known: tuple[str, ...], where: str, what: str) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{where} names the {what} '{name}', which is none of {', '.join(known)}")


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_different)]
Choices = dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]]


class Published(NamedTuple):
    """Mean and standard deviation as the paper prints them; in a file, [mean, std]."""

    mean: Annotated[FiniteFloat, Field(strict=True)]
    std: Annotated[FiniteFloat, Field(strict=True, ge=0)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Row:
    """One line of a table: a method, its settings on top of the protocol, what is searched, what the paper has.

    settings: flat, as `rade train` takes them; a mapping in place of a value chooses by data set.
    search: name → candidates; every combination is tried, and the best one by `selection` is the row's.
    published: backbone → data set → numbers, where there are any.
    """

    name: Name
    method: str
    backbones: Names
    settings: dict[str, Any] = Field(default_factory=dict)
    search: Choices = Field(default_factory=dict)
    selection: Literal["validation"] = "validation"
    published: dict[str, dict[str, Published]] = Field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in (*self.settings, *self.search):
            if key in RESERVED:
                raise ValueError(f"'{key}' is no setting of a row; it belongs to the row or the table itself")
            if key in self.settings and key in self.search:
                raise ValueError(f"'{key}' is in settings and in search; keep one")
        _known(self.published, self.backbones, "published", "backbone")

    @property
    def role(self) -> Literal["plain", "baseline", "rade"]:
        """The backbone alone, another's regulariser, or RADE and variants of it."""
        return "plain" if self.method == PLAIN else "rade" if self.method.startswith("rade") else "baseline"

    def candidates(self) -> tuple[dict[str, Any], ...]:
        """Every combination of the search; one empty combination where nothing is searched."""
        return tuple(dict(zip(self.search, values)) for values in product(*self.search.values()))


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Experiment:
    """A table: rows by data sets, trained under one protocol.

    label: of the paper's table, empty for experiments beyond it.
    seeds: runs of a cell unless the user asks for others; data sets with folds run all folds.
    measure: what is compared, one of `MEASURES`; note: what a reader must know beside the numbers.
    """

    name: str
    title: str
    seeds: Annotated[int, Field(strict=True, ge=1)]
    backbones: Names
    datasets: Names
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    label: str = ""
    protocol: str = "released"
    measure: str = SCORE
    note: str = ""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {self.measure!r}")
        _different(tuple(row.name for row in self.rows))
        for row in self.rows:
            chosen = {f"settings.{name}": value for name, value in row.settings.items() if isinstance(value, Mapping)}
            chosen |= {f"published.{backbone}": numbers for backbone, numbers in row.published.items()}
            for name, value in chosen.items():
                _known(value, self.datasets, f"row '{row.name}': {name}", "data set")


@dataclass(frozen=True)
class Cell:
    """One row on one data set with one backbone: what is run once per seed or fold."""

    experiment: Experiment
    row: Row
    dataset: str
    backbone: str

    @property
    def settings(self) -> dict[str, Any]:
        """Flat settings on top of the protocol, whose value also holds where a row's does not name the data set."""
        chosen = {}
        for name, value in self.row.settings.items():
            if not isinstance(value, Mapping):
                chosen[name] = value
            elif self.dataset in value:
                chosen[name] = value[self.dataset]
        return chosen

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
    """A packaged table by its name, or one's own by the path of its file, ``mine.toml``.

    >>> load("node-gcn").rows[0].published["gcn"]["cora"]
    Published(mean=80.1, std=0.64)
    """
    if name.endswith(".toml"):
        return read(name)
    if name not in names():
        raise unknown("table", name, names())
    return read(FOLDER / f"{name}.toml")


def read(path: str | Path) -> Experiment:
    """A table from a file, named as the file is; what is wrong is reported with its place."""
    path = Path(path)
    raw = read_toml(path)
    rows = raw.get("rows")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and "backbones" in raw:
            row.setdefault("backbones", raw["backbones"])
    try:
        vary = TypeAdapter(Choices).validate_python(raw.pop("vary", {}))
        table = TypeAdapter(Experiment).validate_python({**raw, "name": path.stem})
        return replace(table, rows=tuple(varied for row in table.rows for varied in _varied(row, vary)))
    except ValidationError as error:
        raise TableError(f"{path}: {complaint(error)}") from None
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None


def _varied(row: Row, vary: Mapping[str, tuple[Any, ...]]) -> Iterable[Row]:
    """The row once per combination of the varied settings, which its name then tells."""
    if vary and row.published:
        raise ValueError(f"row '{row.name}': a table with [vary] has no published numbers; write its rows out")
    for values in product(*vary.values()):
        chosen = dict(zip(vary, values))
        for key in chosen.keys() & (row.settings.keys() | row.search.keys()):
            raise ValueError(f"row '{row.name}': '{key}' is varied by the table and set by the row; keep one")
        told = "".join(f", {key} {value}" for key, value in chosen.items())
        yield replace(row, name=row.name + told, settings={**row.settings, **chosen})
