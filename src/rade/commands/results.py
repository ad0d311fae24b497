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
    json: Annotated[
        bool, typer.Option("--json", help="Print the runs with their curves as one JSON document.")
    ] = False,
) -> None:
    """List the finished runs of a store, write its text form, or merge other stores and folders of `rade train`.

    Means over seeds, with the settings that differ from the protocol's; --json and the text form have every run.
    Scores are in %; those of folds are each fold's own best, while the paper's rule (one epoch for all folds) is what
    `rade report` applies. The text form is runs.csv, curves and provenance; all commands read it like a store.

    Examples:

        rade results

        rade results results --dataset cora --method none,rade-of

        rade results results --json > runs.json

        rade results results.sqlite export results

        rade results results.sqlite merge ../other/results.sqlite runs/cora-gcn
    """
    from rich.console import Console

    from rade.commands.display import lined_up, many, printable
    from rade.data.catalogue import resolve
    from rade.errors import RunError, unknown
    from rade.experiment.store import existing, export, open_store, records_below, usual

    named, action, rest = _parts(words or [])
    path = usual() if named is None else named
    asked = {"dataset": tuple(resolve(name).name for name in names(dataset)), "method": names(method)}
    asked |= {"backbone": names(backbone), "protocol": names(protocol)}
    if action and any(asked.values()):
        raise typer.BadParameter(f"{action} takes all runs; filters are for the list and --json")
    if action == "merge":
        with open_store(path).writing() as store:
            new = {str(other): store.merge(records_below(other)) for other in rest}
        said = [f"{other}: {many(count, 'new run')} in {path}" for other, count in new.items()]
        typer.echo(jsonlib.dumps({"store": str(path), "merged": new}, indent=1) if json else "\n".join(said))
        return
    if action == "export":
        count = export(existing(path), rest[0])
        document = jsonlib.dumps({"folder": str(rest[0]), "runs": count})
        typer.echo(document if json else f"{many(count, 'run')} in {rest[0]}")
        return
    every = existing(path).records(curves=json)
    for what, wanted in asked.items():
        known = sorted({str(record.flat[what]) for record in every})
        for name in wanted:
            if name not in known:
                raise unknown(f"{'data set' if what == 'dataset' else what} in {path}", name, known, RunError)
    found = [one for one in every if all(not wanted or one.flat[what] in wanted for what, wanted in asked.items())]
    if json:
        typer.echo(jsonlib.dumps([record.model_dump() for record in found], indent=1))
        return
    lines = means(found)
    table = lined_up(list(lines[0]) if lines else [], [list(line.values()) for line in lines], (*_CELL, "settings"))
    printable(Console(highlight=False), width=240).print(table)
    typer.echo(many(len(found), "run"))


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


def means(records: list[RunRecord]) -> list[dict[str, str]]:
    """Runs that differ by their seed only, together; settings are those that the command of a run has to name."""
    from rade.report.words import mean_std
    from rade.statistics import number, spread
    from rade.train.protocol import defaults
    from rade.train.record import NEUTRAL

    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        kind = {name: value for name, value in record.flat.items() if name not in NEUTRAL}
        groups.setdefault(jsonlib.dumps(kind, sort_keys=True), []).append(record)
    lines = []
    for group in groups.values():
        command = list(pairwise(shlex.split(group[0].command)))
        line = {name: str(group[0].flat[name]) for name in _CELL}
        usual = str(defaults(*line.values())["layers"]) if all(line.values()) else ""  # a command always names them
        told = [f"layers={value}" for option, value in command if option == "--layers" and value != usual]
        line["settings"] = ", ".join(told + [value for option, value in command if option == "--set"])
        line["val"] = mean_std(spread([100 * one.val for one in group]))
        line["test"] = mean_std(spread([100 * one.test for one in group]))
        seconds = number(spread([one.timing.seconds for one in group]).mean, 1)
        lines.append(line | {"runs": str(len(group)), "seconds": seconds})
    return sorted(lines, key=lambda line: tuple(line.values())[:5])
