"""Experiments as data: which cells a table has, how each one is trained, and what the paper printed there.

A table is one TOML file, packaged or a researcher's own. Nothing here imports torch: reports read tables without it,
so names of data sets, methods and backbones are checked where they are used, by `rade.train.resolve`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from rade.errors import RadeError
from rade.train.measures import MEASURES, SCORE

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
            for backbone, numbers in row.published.items():
                _require_known(numbers, self.datasets, f"row '{row.name}': published.{backbone}", "data set")
            for name, value in row.settings.items():
                if isinstance(value, Mapping):
                    _require_known(value, self.datasets, f"row '{row.name}': settings.{name}", "data set")


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
