"""From the cells of tables to runs with names: which settings, which seeds, which folds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rade.data import DataError
from rade.data.catalogue import resolve as resolve_dataset
from rade.errors import SettingsError, unknown
from rade.experiment.table import Cell
from rade.train.run import run_key
from rade.train.settings import Settings, check_options, meant_for, resolve
from rade.train.stages import Corruption

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


Facts = tuple[Mapping[str, Any], int]  # what the plan must know of a data set: its origin as rows record it, its folds


@dataclass(frozen=True)
class Wish:
    """What the user wants of the tables; empty means all, and the table's own choice.

    seeds: runs of a cell; data sets with folds run all of them that many times (default: once).
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    seeds: int | None = None
    protocol: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise SettingsError(f"seeds must be at least 1, got {self.seeds}")
        for name in self.overrides:
            if name in _OURS:
                raise SettingsError(f"--set {name} has no effect here; the table or an option of its own decides it")


def select(cells: Iterable[Cell], wish: Wish) -> list[Cell]:
    """The cells that are wanted; a name that no cell has is an error. A row goes by its name or its method's."""
    found = list(cells)
    datasets = {resolve_dataset(name).name for name in wish.datasets}
    filters: dict[str, tuple[set[str], Callable[[Cell], set[str]]]] = {
        "data set": (datasets, lambda cell: {resolve_dataset(cell.dataset).name}),
        "method": (set(wish.methods), lambda cell: {cell.row.method, cell.row.name}),
        "backbone": (set(wish.backbones), lambda cell: {cell.backbone}),
    }
    for what, (wanted, names) in filters.items():
        known = {name for cell in found for name in names(cell)}
        for name in sorted(wanted - known):
            raise unknown(f"{what} of these tables", name, sorted(known))
        found = [cell for cell in found if not wanted or names(cell) & wanted]
    return found


def plan(
    cells: Iterable[Cell], wish: Wish, facts: Callable[[str], Facts]
) -> tuple[list[tuple[Cell, list[Job]]], list[str]]:
    """Each cell with the runs that fill it, those of all candidates where it is searched for.

    And a sentence per data set that cannot be had, whose cells are left out.
    """
    chosen = list(cells)
    check_options(wish.overrides, list(dict.fromkeys(cell.row.method for cell in chosen)))
    tasks, problems = list[tuple[Cell, list[Job]]](), dict[str, str]()
    for cell in chosen:
        name = resolve_dataset(cell.dataset).name
        try:
            known = facts(name)
        except DataError as error:
            problems[name] = f"{name}: {error}"
            continue
        tasks.append((cell, [job for one in cell.row.candidates() for job in _jobs(cell, one, wish, known)]))
    return tasks, list(problems.values())


def _jobs(cell: Cell, candidate: Mapping[str, Any], wish: Wish, facts: Facts) -> Iterable[Job]:
    values = {**cell.settings, **candidate, **meant_for(cell.row.method, wish.overrides), "threads": 0}
    protocol = wish.protocol or cell.experiment.protocol
    try:
        base = resolve(resolve_dataset(cell.dataset).name, cell.backbone, cell.row.method, protocol, **values)
    except SettingsError as error:
        if wish.overrides:  # as likely theirs
            raise
        raise SettingsError(f"table {cell.experiment.name}, row {cell.row.name!r}: {error}") from None
    origin, folds = facts
    if base.corrupt:  # what the settings do to its graphs is a part of it
        origin = {**origin, "options": Corruption.parse(base.corrupt).told(origin["options"])}
    for seed, run in numbers(folds, wish.seeds, cell.experiment.seeds):
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
