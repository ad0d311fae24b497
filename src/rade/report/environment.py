"""With what the runs were made, counted: versions, commits, machines, data, commands."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rade.report.groups import Group
from rade.report.rows import Run
from rade.train.record import NEUTRAL

# Commands that differ by the number of their run only are one command, with R in its place.
_RUN = re.compile(r"(--run)[ =]\d+\b")


@dataclass(frozen=True)
class Data:
    """A data set's origin and the checksums of its files; `runs` were made with exactly these."""

    name: str
    source: str
    licence: str
    files: tuple[tuple[str, str], ...]
    runs: int


@dataclass(frozen=True)
class Environment:
    """What was used, each with the number of runs that used it."""

    versions: tuple[tuple[str, int], ...]
    commits: tuple[tuple[str, int], ...]
    machines: tuple[tuple[str, int], ...]
    commands: tuple[tuple[str, int], ...]
    data: tuple[Data, ...]
    seconds: float
    epochs: int


def environment(runs: Sequence[Run]) -> Environment:
    """Count over all runs; rows that do not tell are counted as such."""
    return Environment(
        versions=_counted(words(run.made.versions) for run in runs),
        commits=_counted(f"{run.made.commit or 'unknown'}{' with changes' if run.made.dirty else ''}" for run in runs),
        machines=_counted(_machine(run) for run in runs),
        commands=_counted(_RUN.sub(r"\1 R", run.made.command) or "unknown" for run in runs),
        data=_data(runs),
        seconds=sum(sorted(run.seconds for run in runs)),
        epochs=sum(run.epochs for run in runs),
    )


def words(values: Mapping[str, Any]) -> str:
    """A mapping in one line."""
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items())) or "unknown"


def settings_words(group: Group) -> str:
    """A group's settings in one line, without those that stand in columns of their own."""
    named = {*NEUTRAL, "dataset", "backbone", "method"}
    return words({name: value for name, value in group.flat.items() if name not in named})


def _machine(run: Run) -> str:
    threads = f"{run.made.threads} thread{'' if run.made.threads == 1 else 's'}"
    return f"{words(run.made.machine)}; {threads}"


def _counted(texts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Most frequent first, equals by name."""
    return tuple(sorted(Counter(texts).items(), key=lambda item: (-item[1], item[0])))


def _data(runs: Sequence[Run]) -> tuple[Data, ...]:
    counted = Counter(_origin(run) for run in runs)
    return tuple(Data(*origin, runs=count) for origin, count in sorted(counted.items()))


def _origin(run: Run) -> tuple[str, str, str, tuple[tuple[str, str], ...]]:
    data = run.made.data
    files = data.get("files", {})
    listed = files.items() if isinstance(files, Mapping) else ()
    told = (data.get("name", run.settings["dataset"]), data.get("source", ""), data.get("licence", ""))
    name, source, licence = map(str, told)
    return name, source, licence, tuple(sorted((file, str(checksum)) for file, checksum in listed))
