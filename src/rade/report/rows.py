"""Runs as the report sees them: rows of a store, checked once, with their curves thinned to what a picture needs."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rade.errors import RadeError
from rade.train.record import LATER

FORMAT = 1
LAST = 10  # epochs that tell what is left of a score when training goes on
POINTS = 120  # of a drawn curve
DRAWN = ("val", "p", "q", "loss", "train")
_MISSING = object()


class RowError(RadeError, ValueError):
    """A row that is no finished run of this format."""


@dataclass(frozen=True)
class Problem:
    """A file or row that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Curve:
    """Values of some epochs, counted from 1."""

    epochs: array[int]
    values: array[float]


@dataclass(frozen=True)
class Made:
    """With what, where and by which command a run was made."""

    versions: Mapping[str, Any]
    commit: str
    dirty: bool
    machine: Mapping[str, Any]
    threads: int
    command: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One finished run. Scores are fractions; `train` is the training score at the best epoch, where there is one."""

    key: str
    numerics: int
    settings: Mapping[str, Any]
    protocol: str
    run: int
    seed: int
    metric: str
    folds: int
    val: float
    test: float
    best_epoch: int
    epochs: int
    seconds: float
    seconds_per_epoch: float
    finished: str
    made: Made
    train: float | None
    late: float | None  # validation, mean of the last epochs; None where there were no more
    quality: Mapping[str, float]  # log-loss and calibration error on test data, where the row has them
    variance: Mapping[str, float]  # shares of the logits' variance by drops and additions, likewise
    val_curve: array[float]  # whole where the data set has folds, else empty
    curves: Mapping[str, Curve]

    @property
    def pair(self) -> tuple[int, int]:
        """What two methods' runs must share to be compared: first seed and run, and so the split."""
        return int(self.settings["seed"]), self.run

    def last(self, name: str) -> float | None:
        """A curve's last recorded value."""
        return self.curves[name].values[-1] if name in self.curves else None


def read_row(row: Any) -> Run:
    """A run from a store's row; a row that lacks something or holds a score that is no number is refused."""
    if not isinstance(row, Mapping):
        raise RowError(f"a row must be an object, got {type(row).__name__}")
    if row.get("format") != FORMAT:
        raise RowError(f"format {FORMAT} was expected, got {row.get('format')!r}")
    settings = {**LATER, **_read(row, "settings", Mapping)}  # older rows lack settings that came later
    for name in ("dataset", "backbone", "method"):
        _read(settings, name, str)
    _read(settings, "seed", int)
    history, timing = _read(row, "history", Mapping), _read(row, "timing", Mapping)
    folds, best, budget = _read(row, "folds", int), _read(row, "best_epoch", int), _read(settings, "epochs", int)
    curves = {name: _thinned(_curve(history, name), budget) for name in DRAWN if history.get(name)}
    train = _curve(history, "train") if history.get("train") else array("d")
    return Run(
        key=_read(row, "key", str),
        numerics=_read(row, "numerics", int),
        settings=settings,
        protocol=_read(row, "protocol", str, ""),
        run=_read(row, "run", int),
        seed=_read(row, "seed", int),
        metric=_read(row, "metric", str),
        folds=folds,
        val=_score(row, "val"),
        test=_score(row, "test"),
        best_epoch=best,
        epochs=_read(row, "epochs", int),
        seconds=float(_read(timing, "seconds", int | float)),
        seconds_per_epoch=float(_read(timing, "seconds_per_epoch", int | float)),
        finished=_read(timing, "finished", str, ""),
        made=_made(row),
        train=train[best - 1] if 0 < best <= len(train) else None,
        late=_late(history),
        quality=_numbers(row, "quality"),
        variance=_numbers(row, "variance"),
        val_curve=_whole(history) if folds else array("d"),
        curves=curves,
    )


def read_rows(rows: Iterable[Any]) -> tuple[tuple[Run, ...], tuple[Problem, ...]]:
    """All runs, ordered by key, so that a report does not depend on the order of files; and what could not be read."""
    runs, problems = [], []
    for number, row in enumerate(rows):
        try:
            runs.append(read_row(row))
        except RowError as error:
            name = row.get("key") if isinstance(row, Mapping) else None
            problems.append(Problem(str(name or f"row {number}"), str(error)))
    return tuple(sorted(runs, key=lambda run: run.key)), tuple(sorted(problems, key=lambda one: (one.name, one.reason)))


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings and the method's options under one roof."""
    return {**{name: value for name, value in settings.items() if name != "options"}, **settings.get("options", {})}


def _made(row: Mapping[str, Any]) -> Made:
    return Made(
        versions=_read(row, "versions", Mapping, {}),
        commit=_read(row, "commit", str, ""),
        dirty=_read(row, "dirty", bool, False),
        machine=_read(row, "machine", Mapping, {}),
        threads=_read(row, "threads", int, 0),
        command=_read(row, "command", str, ""),
        data=_read(row, "data", Mapping, {}),
    )


def _read(row: Mapping[str, Any], name: str, kind: Any, default: Any = _MISSING) -> Any:
    value = row.get(name, default)
    if value is _MISSING:
        raise RowError(f"{name} is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RowError(f"{name} is not what it should be, got {value!r:.60}")
    return value


def _numbers(row: Mapping[str, Any], name: str) -> dict[str, float]:
    """The finite numbers of a mapping that older rows lack."""
    found = _read(row, name, Mapping, {})
    return {key: float(value) for key, value in found.items() if type(value) in (int, float) and math.isfinite(value)}


def _score(row: Mapping[str, Any], name: str) -> float:
    value = float(_read(row, name, int | float))
    if not math.isfinite(value):
        raise RowError(f"{name} is {value}: the run diverged or was never evaluated")
    return value


def _whole(history: Mapping[str, Any]) -> array[float]:
    curve = _curve(history, "val") if history.get("val") else array("d")
    if not curve or not all(map(math.isfinite, curve)):
        raise RowError("history.val must hold a finite score for every epoch: folds are scored at a common epoch")
    return curve


def _late(history: Mapping[str, Any]) -> float | None:
    curve = _curve(history, "val")[-LAST:] if history.get("val") else ()
    return math.fsum(curve) / LAST if len(curve) == LAST and all(map(math.isfinite, curve)) else None


def _curve(history: Mapping[str, Any], name: str) -> array[float]:
    try:
        return array("d", history[name])
    except TypeError:
        raise RowError(f"history.{name} is no list of numbers") from None


def _thinned(values: Sequence[float], budget: int) -> Curve:
    """Every k-th epoch, k from the epochs that the run was allowed: runs of equal settings share their epochs."""
    step = max(1, -(-budget // POINTS))
    return Curve(array("l", range(1, len(values) + 1, step)), array("d", values[::step]))
