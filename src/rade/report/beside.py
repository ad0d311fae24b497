"""What a store holds beside finished runs: failed ones, and diagnoses of inference operators."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rade.experiment.store import open_store
from rade.report.numbers import many
from rade.report.rows import Problem
from rade.report.svg import Trace, curves

OPERATORS = {"clean": "clean, RADE-OF", "rade-ofs": "RADE-OFS"}
STYLES = {"clean": "plain", "rade-ofs": "own0"}
NOISE = {"drop": "edges lost", "add": "spurious edges", "both": "both"}


@dataclass(frozen=True)
class Failure:
    """A run that failed and has not finished since."""

    key: str
    dataset: str
    backbone: str
    method: str
    run: int
    reason: str
    when: str
    command: str


@dataclass(frozen=True)
class Diagnosis:
    """Measures of the operators as lines of a table, and their pictures."""

    title: str
    model: str
    facts: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    pictures: tuple[tuple[str, str], ...]  # caption, SVG


@dataclass(frozen=True)
class Beside:
    """All that is there."""

    failures: tuple[Failure, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    problems: tuple[Problem, ...] = field(default=())


def read_beside(folder: Path, finished: Collection[str] = ()) -> Beside:
    """Read both folders of a store; files that are damaged or foreign are named and skipped."""
    problems: list[Problem] = []
    failures = [_failure(found.model_dump()) for found in open_store(folder).failures() if found.key not in finished]
    diagnoses = [found for _, found in _read(folder / "studies" / "diagnoses", _diagnosis, problems)]
    failures.sort(key=lambda one: (one.dataset, one.backbone, one.method, one.run, one.key))
    return Beside(tuple(failures), tuple(diagnoses), tuple(problems))


def _read(folder: Path, make: Any, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        name = f"{folder.name}/{path.name}"
        try:
            record = json.loads(path.read_text("utf-8"))
            yield name, make(record)
        except OSError as error:
            problems.append(Problem(name, f"cannot be read: {error.strerror}"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            problems.append(Problem(name, f"is torn, or not what rade writes into {folder.name}"))


def _failure(record: Mapping[str, Any]) -> Failure:
    settings = record["settings"]
    dataset, backbone, method = (str(settings[name]) for name in ("dataset", "backbone", "method"))
    key, reason, when, command = (str(record[name]) for name in ("key", "reason", "when", "command"))
    return Failure(key, dataset, backbone, method, int(record["run"]), reason, when, command)


def _diagnosis(record: Mapping[str, Any]) -> Diagnosis:
    found = {name: record["operators"][name] for name in OPERATORS}
    size = ", ".join(many(int(record[f"{name}s"]), name) for name in ("node", "edge", "graph"))
    return Diagnosis(
        title=str(record["dataset"]),
        model=str(record["model"]),
        facts=f"{size}; p = {record['p']:.3g}, q = {record['q']:.3g}",
        notes=tuple(str(note) for note in record["notes"]),
        head=("", *OPERATORS.values()),
        lines=tuple(_lines(found, int(record["layers"]))),
        pictures=tuple(_pictures(str(record["dataset"]), found)),
    )


def _lines(found: Mapping[str, Mapping[str, Any]], layers: int) -> Iterator[tuple[str, ...]]:
    names = {
        "gap": "spectral gap",
        "gap_largest": "spectral gap, largest component",
        "resistance": "effective resistance, mean",
        "commute": "commute time, mean",
    }
    for key, words in names.items():
        values = [one[key] for one in found.values()]
        if any(value is not None for value in values):
            yield words, *(_figure(value) for value in values)
    shares = [one["beyond"] for one in found.values()]
    yield f"sensitivity from beyond {layers} edges", *("–" if s is None else f"{100 * s:.1f} %" for s in shares)
    for kind, words in NOISE.items():
        for level in next(iter(found.values()))["flips"][kind]:
            flips = (float(one["flips"][kind][level]) for one in found.values())
            yield f"flips, {100 * float(level):g} % {words}", *(f"{100 * share:.1f} %" for share in flips)


def _pictures(name: str, found: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Sensitivity by distance, in powers of ten (what is 0 has none and is not drawn), and flips by noise."""
    traces = []
    for operator, one in found.items():
        steps = [(int(s["distance"]), float(s["sensitivity"])) for s in one["steps"] if s["distance"] >= 0]
        traces += _trace(operator, [(distance, math.log10(value)) for distance, value in steps if value > 0])
    if traces:
        yield "log₁₀ of the mean ‖∂h_i/∂h⁰_j‖", curves(f"sensitivity by distance, {name}", traces, False, "distance")
    for kind, words in NOISE.items():
        traces = []
        for operator, one in found.items():
            shares = one["flips"][kind].items()
            traces += _trace(operator, [(round(100 * float(level)), float(share)) for level, share in shares])
        caption = f"predictions that change, %: {words}"
        yield caption, curves(f"{caption}, {name}", traces, True, "noise, % of the edges")


def _trace(operator: str, points: Sequence[tuple[int, float]]) -> list[Trace]:
    """The line of an operator; none without points."""
    if not points:
        return []
    places, values = tuple(place for place, _ in points), tuple(value for _, value in points)
    return [Trace(OPERATORS[operator], STYLES[operator], places, values, values, values)]


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    return f"{float(value):,.0f}" if abs(value) >= 1000 else f"{float(value):.3g}"
