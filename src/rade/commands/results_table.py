"""The table of `rade results`: means over seeds, or single runs, each with the settings that tell it apart."""

import json
import shlex
import sys
from itertools import pairwise
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rade.report.numbers import many
from rade.train.record import NEUTRAL
from rade.train.record import RunRecord as Row

_CELL = ("dataset", "backbone", "method", "protocol")
_LEFT = ("key", *_CELL, "settings")


def print_table(rows: list[Row], single: bool) -> None:
    """Print one line per run, or per kind of run."""
    lines = [_single(row) for row in rows] if single else means(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in lines[0] if lines else ():
        text = name in _LEFT
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for line in lines:
        table.add_row(*(escape(value) for value in line.values()))
    # A pipe has no width to keep to.
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=240)
    console.print(table)
    console.print(many(len(rows), "run"))


def _single(row: Row) -> dict[str, str]:
    names = {name: str(row["settings"][name]) for name in _CELL[:3]}
    kind = _kind(row)
    return {
        "key": row["key"][:12],
        **names,
        "protocol": row["protocol"],
        "settings": _words(kind, changed(row)),
        "run": str(row["run"]),
        "seed": str(row["seed"]),
        **{name: f"{100 * row[name]:.2f}" for name in ("val", "test")},
        "epoch": f"{row['best_epoch']}/{row['epochs']}",
        "seconds": f"{row['timing']['seconds']:.1f}",
    }


def means(rows: list[Row]) -> list[dict[str, str]]:
    """Runs that differ by their seed only, together; settings that differ from others or the protocol are told."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps(_kind(row), sort_keys=True), []).append(row)
    kinds = [json.loads(kind) for kind in groups]
    lines = []
    for kind, group in zip(kinds, groups.values()):
        rivals = [other for other in kinds if all(other[name] == kind[name] for name in _CELL)]
        varied = {name for name in kind if any(other.get(name) != kind[name] for other in rivals)}
        line = {name: str(kind[name]) for name in _CELL}
        line["settings"] = _words(kind, varied | changed(group[0]))
        for name in ("val", "test"):
            scores = [100 * row[name] for row in group]
            line[name] = f"{mean(scores):.2f}" + (f" ± {stdev(scores):.2f}" if len(scores) > 1 else "")
        line |= {"runs": str(len(group)), "seconds": f"{mean(row['timing']['seconds'] for row in group):.1f}"}
        lines.append(line)
    return sorted(lines, key=lambda line: tuple(line.values())[:5])


def changed(row: Row) -> set[str]:
    """Settings that differ from the protocol's: those that the command which repeats the run has to name."""
    words = shlex.split(row["command"])
    return {value.partition("=")[0] for option, value in pairwise(words) if option == "--set"}


def _kind(row: Row) -> dict[str, Any]:
    """Everything but the seed, flat."""
    return {name: value for name, value in sorted(row.flat.items()) if name not in NEUTRAL}


def _words(kind: dict[str, Any], names: set[str]) -> str:
    return ", ".join(f"{name} {kind[name]}" for name in sorted(names) if name in kind)
