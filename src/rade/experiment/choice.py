"""Which candidate of a search is a row's: the one with the best validation score. Pure functions of stored rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from rade.train.folds import mean_curve
from rade.train.row import Row


@dataclass(frozen=True)
class Choice:
    """The chosen settings, their validation score and runs, and the budget that it took to find them.

    candidates × runs is the budget planned; `spent` the runs that are there. Where a candidate lacks runs that others
    have, it is not considered, and `complete` is false.
    """

    settings: Mapping[str, Any]
    score: float
    rows: tuple[Row, ...]
    candidates: int
    runs: int
    spent: int
    complete: bool


def candidates(search: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination, the last name varying fastest; without a search a single empty one.

    >>> candidates({"p": [0.1, 0.2], "rho": [1.0]})
    [{'p': 0.1, 'rho': 1.0}, {'p': 0.2, 'rho': 1.0}]
    """
    return [dict(zip(search, values)) for values in product(*search.values())]


def choose(rows: Sequence[Row], search: Mapping[str, Sequence[Any]]) -> Choice | None:
    """The best candidate among the rows of one cell (data set, backbone, method, protocol); None without any run.

    Equal scores: the candidate that the search names first. Test scores play no part.
    """
    groups = [(candidate, [row for row in rows if _has(row, candidate)]) for candidate in candidates(search)]
    expected = {_which(row) for _, group in groups for row in group}
    whole = [(candidate, group) for candidate, group in groups if {_which(row) for row in group} == expected]
    if not expected or not whole:
        return None
    scored = [(validation_score(group), candidate, group) for candidate, group in whole]
    score, candidate, group = max(scored, key=lambda found: found[0])
    spent = sum(len(group) for _, group in groups)
    complete = len(whole) == len(groups)
    return Choice(candidate, score, tuple(group), len(groups), len(expected), spent, complete)


def validation_score(rows: Sequence[Row]) -> float:
    """Mean validation score of runs; of folds the peak of the averaged validation curve, as their protocol has it."""
    if rows[0]["folds"] == 0:
        return sum(float(row["val"]) for row in rows) / len(rows)
    return max(mean_curve([row["history"]["val"] for row in rows]))


def flat(row: Row) -> dict[str, Any]:
    """A row's settings with those of its method beside them."""
    settings: dict[str, Any] = row["settings"]
    return {**settings, **settings.get("options", {})}


def _has(row: Row, candidate: Mapping[str, Any]) -> bool:
    values = flat(row)
    return all(name in values and values[name] == value for name, value in candidate.items())


def _which(row: Row) -> tuple[int, int]:
    return row["settings"]["seed"], row["run"]
