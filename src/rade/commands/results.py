"""`rade results`: what a store of finished runs holds; write it as text, merge others into it."""

from __future__ import annotations

import json as jsonlib
import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rade.commands.reproduce import names

if TYPE_CHECKING:
    from rade.train.record import RunRecord

_CELL = ("dataset", "backbone", "method", "protocol")
_LEFT = ("key", *_CELL, "settings")


def results(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STORE] [merge OTHER… | export FOLDER]",
            help="The store (default results.sqlite, else results/), and what to do with it.",
        ),
    ] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only these; repeat it, or separate by commas.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None,
    backbone: Annotated[list[str] | None, typer.Option(help="Only these backbones.")] = None,
    protocol: Annotated[list[str] | None, typer.Option(help="Only released, or paper.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="List single runs instead of their means.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the runs with their curves as one JSON document.")
    ] = False,
) -> None:
    """List the finished runs of a store, write its text form, or merge other stores and folders of `rade train`.

    Settings that differ from the protocol's are shown.
    Scores are in %; those of folds are each fold's own best, while the paper's rule (one epoch for all folds) is what
    `rade report` applies. The text form is runs.csv, curves and provenance; all commands read it like a store.

    Examples:

        rade results

        rade results results --dataset cora --method none,rade-of --runs

        rade results results --json > runs.json

        rade results results.sqlite export results

        rade results results.sqlite merge ../other/results.sqlite runs/cora-gcn
    """
    from rade.commands.display import many
    from rade.experiment.store import existing, export, open_store, records_below, usual

    named, action, rest = _parts(words or [])
    path = usual() if named is None else named
    if action == "merge":
        with open_store(path).writing() as store:
            for other in rest:
                typer.echo(f"{other}: {many(store.merge(records_below(other)), 'new run')} in {path}")
        return
    if action == "export":
        typer.echo(f"{many(export(existing(path), rest[0]), 'run')} in {rest[0]}")
        return
    wanted = {"dataset": _datasets(dataset), "method": names(method), "backbone": names(backbone)}
    found = existing(path).records(**wanted, protocol=names(protocol), curves=json)
    if json:
        typer.echo(jsonlib.dumps([record.model_dump() for record in found], indent=1))
    else:
        _print_table([_single(one) for one in found] if runs else means(found), many(len(found), "run"))


def _parts(words: list[str]) -> tuple[Path | None, str, list[Path]]:
    """The store, what to do, and with which folders."""
    place = next((place for place, word in enumerate(words) if word in ("merge", "export")), len(words))
    store, action, rest = words[:place], "".join(words[place : place + 1]), [Path(word) for word in words[place + 1 :]]
    if action == "merge" and not rest:
        raise typer.BadParameter("merge needs at least one store or folder: rade results STORE merge OTHER…")
    if action == "export" and len(rest) != 1:
        raise typer.BadParameter("export needs one folder: rade results STORE export FOLDER")
    if len(store) > 1:
        raise typer.BadParameter(f"one store at a time, got {', '.join(store)}; merge OTHER… adds others to it")
    return Path(store[0]) if store else None, action, rest


def _datasets(given: list[str] | None) -> tuple[str, ...]:
    from rade.data.catalogue import resolve

    return tuple(resolve(name).name for name in names(given))


def _print_table(lines: list[dict[str, str]], total: str) -> None:
    """One line per run, or per kind of run."""
    from rich.console import Console

    from rade.commands.display import lined_up, printable

    table = lined_up(list(lines[0]) if lines else [], [list(line.values()) for line in lines], _LEFT)
    printable(Console(highlight=False), width=240).print(table)
    typer.echo(total)


def _single(record: RunRecord) -> dict[str, str]:
    return {
        "key": record.key[:12],
        **_cell(record),
        "run": str(record.run),
        "seed": str(record.seed),
        "val": f"{100 * record.val:.2f}",
        "test": f"{100 * record.test:.2f}",
        "epoch": f"{record.best_epoch}/{record.epochs}",
        "seconds": f"{record.timing.seconds:.1f}",
    }


def means(records: list[RunRecord]) -> list[dict[str, str]]:
    """Runs that differ by their seed only, together."""
    from statistics import mean

    from rade.statistics import spread
    from rade.train.record import NEUTRAL

    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        kind = {name: value for name, value in record.flat.items() if name not in NEUTRAL}
        groups.setdefault(jsonlib.dumps(kind, sort_keys=True), []).append(record)
    lines = []
    for group in groups.values():
        line = _cell(group[0])
        for name, scores in {"val": [one.val for one in group], "test": [one.test for one in group]}.items():
            found = spread([100 * score for score in scores])
            line[name] = f"{found.mean:.2f}" + (f" ± {found.std:.2f}" if found.std is not None else "")
        lines.append(line | {"runs": str(len(group)), "seconds": f"{mean(one.timing.seconds for one in group):.1f}"})
    return sorted(lines, key=lambda line: tuple(line.values())[:5])


def _cell(record: RunRecord) -> dict[str, str]:
    """What a run is of, and the settings that the command which repeats it has to name."""
    words = shlex.split(record.command)
    changed = [value for option, value in pairwise(words) if option == "--set"]
    return {name: str(record.flat[name]) for name in _CELL} | {"settings": ", ".join(changed)}
