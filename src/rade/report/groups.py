"""Runs that differ by nothing but their seed belong together."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rade.report.rows import Run, flat
from rade.train.record import NEUTRAL


@dataclass(frozen=True)
class Group:
    """The runs of equal settings and protocol, one per first seed and run number, in that order."""

    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """A run that stands for all: settings, metric, folds and protocol are the same."""
        return self.runs[0]

    @property
    def protocol(self) -> str:
        """Where the settings came from."""
        return self.first.protocol

    @property
    def method(self) -> str:
        """The method's name in the settings."""
        return str(self.first.settings["method"])

    @property
    def place(self) -> tuple[str, str]:
        """Data set and backbone."""
        return str(self.first.settings["dataset"]), str(self.first.settings["backbone"])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """Settings and options together."""
        return flat(self.first.settings)

    @property
    def is_whole(self) -> bool:
        """Whether no fold is missing, where there are folds: they differ more than methods do."""
        return {run.run for run in self.runs} >= set(range(self.first.folds))

    @cached_property
    def surroundings(self) -> str:
        """All that two methods must share to be compared: everything but method, options and seed."""
        kept = {name: value for name, value in self.first.settings.items() if name not in NEUTRAL}
        return _text({**kept, "method": "", "options": {}, "protocol": self.protocol})

    @cached_property
    def name(self) -> str:
        """Settings in one line that orders groups."""
        return _identity(self.first)


def group(runs: Iterable[Run]) -> tuple[tuple[Group, ...], tuple[Run, ...]]:
    """Groups, and runs that repeat another's settings, seed and run: the newest numerics count, then the first key.

    Run 0 of first seed 3 is run 3 of first seed 0, but for splits that are numbered; the outcome tells.
    """
    together: dict[str, dict[tuple[int, int], Run]] = {}
    repeated = []
    seen: set[tuple[Any, ...]] = set()
    for run in sorted(runs, key=lambda run: (-run.numerics, run.key)):
        identity = _identity(run)
        outcome = run.pair if run.folds else (run.seed, run.val, run.test, run.best_epoch)
        names = {(identity, *run.pair), (identity, *outcome)}
        if names & seen:
            repeated.append(run)
        else:
            seen |= names
            together.setdefault(identity, {})[run.pair] = run
    groups = [Group(tuple(slots[pair] for pair in sorted(slots))) for _, slots in sorted(together.items())]
    return tuple(groups), tuple(repeated)


def _identity(run: Run) -> str:
    kept = {name: value for name, value in run.settings.items() if name not in NEUTRAL}
    return _text({**kept, "protocol": run.protocol, "metric": run.metric, "folds": run.folds})


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, default=str)
