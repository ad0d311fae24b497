"""`rade reproduce`: run the cells of tables, on this machine or many, into a store that knows what is done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rade.experiment.grid import Grid, Outcome
    from rade.experiment.plan import CellJobs, Job, Wish
    from rade.train.record import RunRecord


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="Names such as node-gcn, or TOML files of your own.")
    ],
    datasets: Annotated[list[str] | None, typer.Option(help="Only these; repeat it, or separate by commas.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these rows, by method or by the row's name.")] = None,
    backbones: Annotated[list[str] | None, typer.Option(help="Only these backbones.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of a cell, instead of the table's number; folds are repeated that often, else once."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="released or paper, instead of the table's; see rade train --help.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of every run, as NAME=VALUE; may repeat.")
    ] = None,
    store: Annotated[Path, typer.Option(help="The file of finished runs.")] = Path("results.sqlite"),
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time, each in a process of its own.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of a run; another number rounds otherwise.")] = 1,
    budget: Annotated[float | None, typer.Option(min=0, help="Hours after which no new run starts.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Run on the workers of this Dask scheduler, e.g. tcp://head:8786.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 50,
    data_root: Annotated[Path | None, typer.Option(help="Data folder; else $RADE_DATA, else ~/.cache/rade.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run, and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Run the cells of one or more tables, as many runs each as the table asks for, and keep every run in a store.

    What the store has is not done again, so the same command continues after Ctrl-C, a crash or a lost machine, from
    the last checkpoint of each run. A run that fails does not stop the others: it is reported at the end, and the
    exit code is then 1.

    Examples:

        rade reproduce node-gcn --dry-run

        rade reproduce node-gcn --datasets cora,citeseer --seeds 3 --workers 2

        rade reproduce node-gcn ablations-gcn --methods none,rade-of --budget 8

        rade reproduce node-gcn --scheduler tcp://head:8786
    """
    from rich.console import Console

    from rade.experiment.grid import Grid, Place
    from rade.experiment.plan import Wish
    from rade.experiment.store import open_store
    from rade.train.process import stop_on_signal
    from rade.train.settings import parse_assignment

    overrides = {name: value for text in set_ or () for name, value in parse_assignment(text).items()}
    wish = Wish(names(datasets), names(methods), names(backbones), seeds, protocol or "", overrides)
    tasks, problems = _tasks(tables, wish, data_root, download=not dry_run)
    runs = open_store(store)
    grid = Grid(tasks, runs.keys())
    console = Console(highlight=False, soft_wrap=True, quiet=json)
    _show_plan(grid, console, problems, store)
    stopped = 0
    if grid.queue and not dry_run:
        place = Place(runs.work.absolute(), data_root and data_root.absolute(), threads, checkpoint_every)
        limit = {} if budget is None else {"budget": 3600 * budget}
        with runs.writing(), stop_on_signal() as stop_asked:
            outcomes = grid.work_off(
                runs, place, workers=workers, scheduler=scheduler or "", stop_asked=stop_asked, **limit
            )
            _watch(outcomes, grid, console)
            stopped = stop_asked.code if stop_asked() else 0
    if json:
        typer.echo(_document(grid, problems, store))
    else:
        _show_end(grid, console, dry_run)
    if stopped:
        typer.echo("stopped; what is finished is in the store, and the same command continues", err=True)
        raise typer.Exit(stopped)
    if grid.failed or problems:
        raise typer.Exit(1)


def names(given: list[str] | None) -> tuple[str, ...]:
    """Names from a list whose elements may hold several, separated by commas.

    >>> names(["cora,citeseer", "cs"])
    ('cora', 'citeseer', 'cs')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())


def _tasks(tables: list[str], wish: Wish, data_root: Path | None, download: bool) -> tuple[list[CellJobs], list[str]]:
    """The cells with their runs, and what cannot be run for want of data."""
    from functools import cache

    from rade.data import DataError, load
    from rade.experiment.plan import Facts, plan, select
    from rade.experiment.table import cells
    from rade.experiment.table import load as load_table
    from rade.train.record import origin

    @cache
    def facts(name: str) -> Facts:
        dataset = load(name, data_root, download=download)
        return Facts(origin(dataset), dataset.folds)

    found = [load_table(name) for name in dict.fromkeys(tables)]
    tasks, problems = plan(select((cell for table in found for cell in cells(table)), wish), wish, facts)
    if not tasks:
        raise DataError(problems[0])
    return tasks, problems


def _show_plan(grid: Grid, console: Console, problems: list[str], store: Path) -> None:
    """A table of cells, then the total."""
    from rich.markup import escape

    from rade.commands.display import lined_up, many, printable

    words = ("table", "data set", "backbone", "row")
    lines = []
    for task in grid.tasks:
        cell, runs = task.cell, len(task.jobs)
        named = (cell.experiment.name, cell.dataset, cell.backbone, cell.row.name)
        lines.append((*named, str(runs), str(runs - grid.missing(task))))
    table = lined_up((*words, "runs", "in store"), lines, words)
    printable(console).print(table)
    for problem in problems:
        console.print(escape(f"cannot run {problem}"))
    what = f"{many(len(grid.queue), 'run')} to do" if grid.queue else "nothing to do"
    console.print(escape(f"{what}, {len(grid.jobs)} in all; store: {store}"))


def _watch(outcomes: Any, grid: Grid, console: Console) -> None:
    """A line for every run that ends and, on a terminal, a bar with what remains."""
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        runs = bar.add_task("runs", total=len(grid.queue))
        for outcome in outcomes:
            ended = grid.finished + len(grid.failed)
            console.print(escape(f"{_sentence(outcome)} ({ended} of {len(grid.queue)})"))
            bar.update(runs, completed=ended)


def _sentence(outcome: Outcome[Job, RunRecord]) -> str:
    run = outcome.value
    if run is None:
        return f"{outcome.argument}: {outcome.failure}"
    scores = f"val {100 * run.val:.2f}, test {100 * run.test:.2f}"
    return f"{outcome.argument}: {scores} at epoch {run.best_epoch} of {run.epochs}, {run.timing.seconds:.1f} s"


def _show_end(grid: Grid, console: Console, dry_run: bool) -> None:
    """What was done, what failed and why, what is left."""
    from rich.markup import escape

    from rade.commands.display import many

    if not dry_run:
        left = len(grid.queue) - grid.finished - len(grid.failed)
        console.print(f"{many(grid.finished, 'run')} done, {len(grid.failed)} failed, {left} left")
    for job, reason in grid.failed.values():
        console.print(escape(f"failed: {job} ({job.key[:12]}): {reason}"))


def _document(grid: Grid, problems: list[str], store: Path) -> str:
    import json

    document = {
        "store": str(store),
        "cells": [
            {"table": task.cell.experiment.name, "row": task.cell.row.name, "dataset": task.cell.dataset}
            | {"backbone": task.cell.backbone, "candidates": task.candidates, "runs": len(task.jobs)}
            | {"missing": grid.missing(task), "keys": [job.key for job in task.jobs]}
            for task in grid.tasks
        ],
        "runs": len(grid.jobs),
        "missing": sum(key not in grid.done for key in grid.jobs),
        "finished": grid.finished,
        "failures": [{"run": str(job), "key": job.key, "reason": reason} for job, reason in grid.failed.values()],
        "problems": problems,
    }
    return json.dumps(document, indent=1)
