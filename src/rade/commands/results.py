"""`rade results`: what a store of finished runs holds; export it, merge others into it."""

import json as jsonlib
import sys
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
        Path | None, typer.Option(help="Write the runs with their curves to this file; - prints them.")
    ] = None,
) -> None:
    """List the finished runs of a store, export them, or merge other stores and folders of `rade train` into it.

    A file that is damaged or no run is named and skipped. Scores are in %; those of folds are each fold's own best,
    while the paper's rule (one epoch for all folds) is what `rade report` applies.

    Examples:

        rade results

        rade results results --dataset cora --method none,rade-of --runs

        rade results results --csv runs.csv --json runs.json

        rade results results merge ../other/results runs/cora-gcn
    """
    from rade.experiment.store import Store

    store, others = _parts(words or [])
    if others is not None:
        _merge(Store(store), others)
        return
    wanted = {"dataset": _datasets(dataset), "method": names(method), "backbone": names(backbone)}
    rows, problems = Store(store).existing().rows(**wanted, protocol=names(protocol), curves=json is not None)
    _tell(problems)
    if csv is not None:
        _write_csv(csv, rows)
    if json is not None:
        _write_json(json, rows)
    if csv is None and json is None:
        _print_table(rows, runs)


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


def _merge(store: Any, others: list[Path]) -> None:
    for other in others:
        new, problems = store.merge(other)
        _tell(problems)
        typer.echo(f"{other}: {new} new runs in {store.folder}")


def _tell(problems: list[str]) -> None:
    for problem in problems:
        typer.echo(f"skipped: {problem}", err=True)


COLUMNS = (
    *("key", "dataset", "backbone", "method", "protocol", "run", "seed", "metric", "val", "test", "best_epoch"),
    *("epochs", "seconds", "seconds_per_epoch", "finished", "numerics", "commit", "dirty", "threads", "options"),
    *("settings", "command"),
)


def flat_row(row: dict[str, Any]) -> dict[str, Any]:
    """A run as one line of a table; nested values as JSON."""
    settings = {name: value for name, value in row["settings"].items() if name != "options"}
    flat = {**settings, **row, **row["timing"], "options": row["settings"].get("options", {}), "settings": settings}
    values = {name: flat[name] for name in COLUMNS}
    return {name: jsonlib.dumps(value) if isinstance(value, dict) else value for name, value in values.items()}


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    import csv
    import io

    from rade.train.files import write_whole

    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(flat_row(row) for row in rows)
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
    typer.echo(f"{len(rows)} runs in {path}")


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    from rade.train.files import save_json

    if str(path) == "-":
        typer.echo(jsonlib.dumps(rows, indent=1))
        return
    save_json(path, rows)
    typer.echo(f"{len(rows)} runs in {path}")


def _print_table(rows: list[dict[str, Any]], single: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    lines = [_single(row) for row in rows] if single else _means(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in lines[0] if lines else ():
        text = name in (*COLUMNS[:5], "settings")
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for line in lines:
        table.add_row(*(escape(value) for value in line.values()))
    # A pipe has no width to keep to.
    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=240)
    console.print(table)
    console.print(f"{len(rows)} runs")


def _single(row: dict[str, Any]) -> dict[str, str]:
    names = {"key": row["key"][:12], **{name: row["settings"][name] for name in ("dataset", "backbone", "method")}}
    scores = {name: f"{100 * row[name]:.2f}" for name in ("val", "test")}
    epochs = f"{row['best_epoch']}/{row['epochs']}"
    timing = f"{row['timing']['seconds']:.1f}"
    return {**names, "protocol": row["protocol"], "run": str(row["run"]), "seed": str(row["seed"])} | {
        **scores,
        "epoch": epochs,
        "seconds": timing,
    }


def _means(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Runs that differ by their seed only, together; settings that differ within the list tell them apart."""
    from statistics import mean, stdev

    from rade.train.row import LATER

    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        settings = {**LATER, **row["settings"], **row["settings"].get("options", {}), "protocol": row["protocol"]}
        same = {
            name: settings[name] for name in sorted(settings) if name not in ("seed", "threads", "device", "options")
        }
        groups.setdefault(jsonlib.dumps(same), []).append(row)
    kinds = [jsonlib.loads(kind) for kind in groups]
    lines = []
    for kind, group in zip(kinds, groups.values()):
        cell = ("dataset", "backbone", "method", "protocol")
        rivals = [other for other in kinds if all(other[name] == kind[name] for name in cell)]
        varied = [name for name in kind if any(other.get(name) != kind[name] for other in rivals)]
        line = {name: str(kind[name]) for name in cell}
        line["settings"] = ", ".join(f"{name} {kind[name]}" for name in varied)
        for name in ("val", "test"):
            scores = [100 * row[name] for row in group]
            line[name] = f"{mean(scores):.2f}" + (f" ± {stdev(scores):.2f}" if len(scores) > 1 else "")
        line |= {"runs": str(len(group)), "seconds": f"{mean(row['timing']['seconds'] for row in group):.1f}"}
        lines.append(line)
    return sorted(lines, key=lambda line: tuple(line.values())[:5])
