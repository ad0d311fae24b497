"""From the cells of tables to runs with names: which settings, which seeds, which folds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rade.data import DataError, Dataset
from rade.data.catalogue import resolve as resolve_dataset
from rade.errors import SettingsError, unknown
from rade.experiment.table import Cell
from rade.train.record import run_key
from rade.train.settings import Settings, check_options, meant_for, resolve

# Repetition k of a cross-validation uses the seeds from 1000·k on: apart from the folds' own 0 … 9, and told at sight.
REPETITION = 1000
# Settings that tables and options of the command decide.
_OURS = ("seed", "runs", "run", "threads", "dataset", "method", "backbone", "protocol")


@dataclass(frozen=True)
class Job:
    """One run: its name in the store, its settings and its number."""

    key: str
    settings: Settings
    run: int

    def __str__(self) -> str:
        settings = self.settings
        seed = f", seed {settings.seed + self.run}" if settings.seed else ""
        return f"{settings.dataset} {settings.backbone} {settings.method}, run {self.run}{seed}"


Planned = list[tuple[Cell, list[Job]]]  # each cell with the runs that fill it


def select(
    cells: Iterable[Cell], datasets: Iterable[str] = (), methods: Iterable[str] = (), backbones: Iterable[str] = ()
) -> list[Cell]:
    """The cells that are wanted, all of a kind that is not named; a row goes by its name or its method's.

    A name that no cell has is an error.
    """
    found = list(cells)
    filters: dict[str, tuple[set[str], Callable[[Cell], set[str]]]] = {
        "data set": ({resolve_dataset(name).name for name in datasets}, lambda cell: {_dataset(cell)}),
        "method": (set(methods), lambda cell: {cell.row.method, cell.row.name}),
        "backbone": (set(backbones), lambda cell: {cell.backbone}),
    }
    for what, (wanted, names) in filters.items():
        known = {name for cell in found for name in names(cell)}
        for name in sorted(wanted - known):
            raise unknown(f"{what} of these tables", name, sorted(known))
        found = [cell for cell in found if not wanted or names(cell) & wanted]
    return found


def plan(
    cells: Sequence[Cell],
    load: Callable[[str], Dataset],
    seeds: int | None = None,
    protocol: str = "",
    overrides: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Planned, list[str]]:
    """Each cell with its runs, those of all candidates where it is searched for; and a sentence per data set that
    cannot be had, whose cells are left out.

    seeds: runs of a cell in place of the table's; data sets with folds run all of them that many times (default: once).
    """
    for name in overrides:
        if name in _OURS:
            raise SettingsError(f"--set {name} has no effect here; the table or an option of its own decides it")
    check_options(overrides, list(dict.fromkeys(cell.row.method for cell in cells)))
    tasks, facts, problems = Planned(), dict[str, tuple[dict[str, Any], int]](), dict[str, str]()
    for cell in cells:
        name = _dataset(cell)
        if name not in facts and name not in problems:
            try:
                dataset = load(name)
                facts[name] = dataset.origin, dataset.folds
            except DataError as error:
                problems[name] = f"{name}: {error}"
        if name in facts:
            known, folds = facts[name]
            pairs = numbers(folds, seeds, cell.experiment.seeds)
            found = [_settings(cell, one, protocol, overrides) for one in cell.row.candidates()]
            tasks.append((cell, [job for base in found for job in _jobs(base, known, pairs)]))
    return tasks, list(problems.values())


def _dataset(cell: Cell) -> str:
    return resolve_dataset(cell.dataset).name


def _settings(cell: Cell, candidate: Mapping[str, Any], protocol: str, overrides: Mapping[str, Any]) -> Settings:
    values = {**cell.settings, **candidate, **meant_for(cell.row.method, overrides), "threads": 0}
    protocol = protocol or cell.experiment.protocol
    try:
        return resolve(_dataset(cell), cell.backbone, cell.row.method, protocol, **values)
    except SettingsError as error:
        if overrides:  # as likely theirs
            raise
        raise SettingsError(f"table {cell.experiment.name}, row {cell.row.name!r}: {error}") from None


def _jobs(base: Settings, origin: Mapping[str, Any], pairs: Iterable[tuple[int, int]]) -> Iterable[Job]:
    for seed, run in pairs:
        settings = base.model_copy(update={"seed": seed})
        yield Job(run_key(settings, run, origin), settings, run)


def numbers(folds: int, asked: int | None, usual: int) -> list[tuple[int, int]]:
    """First seeds and run numbers: run r has the seed r; folds run whole, repetition k with the seeds 1000·k + fold.

    >>> numbers(0, None, 3), numbers(2, 2, 5)
    ([(0, 0), (0, 1), (0, 2)], [(0, 0), (0, 1), (1000, 0), (1000, 1)])
    """
    if folds == 0:
        return [(0, run) for run in range(asked or usual)]
    return [(REPETITION * repetition, fold) for repetition in range(asked or 1) for fold in range(folds)]
