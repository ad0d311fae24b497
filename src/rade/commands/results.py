"""`rade results`: what a store of finished runs holds; export it, merge others into it."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from rade.commands.reproduce import names


def results(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STORE] [merge OTHER…]", help="The store (default results/), and what to merge into it."
        ),
    ] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only these; repeat it, or separate by commas.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only these methods.")] = None,
    backbone: Annotated[list[str] | None, typer.Option(help="Only these backbones.")] = None,
    protocol: Annotated[list[str] | None, typer.Option(help="Only released, or paper.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="List single runs instead of their means.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the runs, one per line, to this file.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else: the runs with their curves.")
    ] = False,
) -> None:
    """List the finished runs of a store, export them, or merge other stores and folders of `rade train` into it.

    Settings that differ from the protocol's, or between kinds of runs that are listed, are shown.
    A file that is damaged or no run is named and skipped. Scores are in %; those of folds are each fold's own best,
    while the paper's rule (one epoch for all folds) is what `rade report` applies.

    Examples:

        rade results

        rade results results --dataset cora --method none,rade-of --runs

        rade results results --csv runs.csv

        rade results results --json > runs.json

        rade results results merge ../other/results runs/cora-gcn
    """
    from rade.commands.results_table import print_table
    from rade.experiment.store import Store
    from rade.report.numbers import many

    store, others = _parts(words or [])
    if others is not None:
        _merge(Store(store), others, json)
        return
    wanted = {"dataset": _datasets(dataset), "method": names(method), "backbone": names(backbone)}
    rows, problems = Store(store).existing().rows(**wanted, protocol=names(protocol), curves=json)
    _tell(problems)
    if csv is not None:
        _write_csv(csv, rows)
    if json:
        typer.echo(jsonlib.dumps([row.model_dump() for row in rows], indent=1))
    elif csv is not None:
        typer.echo(f"{many(len(rows), 'run')} in {csv}")
    else:
        print_table(rows, runs)


def _parts(words: list[str]) -> tuple[Path, list[Path] | None]:
    """The store, and the folders after the word `merge`."""
    store, others = words, None
    if "merge" in words:
        place = words.index("merge")
        store, others = words[:place], [Path(word) for word in words[place + 1 :]]
        if not others:
            raise typer.BadParameter("merge needs at least one folder: rade results STORE merge OTHER…")
    if len(store) > 1:
        raise typer.BadParameter(f"one store at a time, got {', '.join(store)}; merge OTHER… adds others to it")
    return Path(store[0] if store else "results"), others


def _datasets(given: list[str] | None) -> tuple[str, ...]:
    from rade.data.catalogue import resolve

    return tuple(resolve(name).name for name in names(given))


def _merge(store: Any, others: list[Path], json: bool) -> None:
    from rade.report.numbers import many

    merged = []
    for other in others:
        new, problems = store.merge(other)
        _tell(problems)
        merged.append({"folder": str(other), "new": new})
        if not json:
            typer.echo(f"{other}: {many(new, 'new run')} in {store.folder}")
    if json:
        typer.echo(jsonlib.dumps({"store": str(store.folder), "merged": merged}, indent=1))


def _tell(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"skipped: {problem}", err=True)


COLUMNS = (
    *("key", "dataset", "backbone", "method", "protocol", "run", "seed", "metric", "val", "test", "best_epoch"),
    *("epochs", "seconds", "seconds_per_epoch", "finished", "numerics", "commit", "dirty", "threads", "options"),
    *("settings", "command"),
)


def flat_row(row: Any) -> dict[str, Any]:
    """A run as one line of a table; nested values as JSON."""
    settings = {name: value for name, value in row.settings.items() if name != "options"}
    dump = row.model_dump()
    flat = {**settings, **dump, **dump["timing"], "options": row.settings["options"], "settings": settings}
    values = {name: flat[name] for name in COLUMNS}
    return {name: jsonlib.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}


def _write_csv(path: Path, rows: list[Any]) -> None:
    import csv
    import io

    from rade.train.files import write_whole

    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(flat_row(row) for row in rows)
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
