"""`rade reproduce`: run the cells of tables, on this machine or many, into a store that knows what is done."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rade.experiment.grid import Outcome
    from rade.experiment.plan import Job, Planned
    from rade.experiment.store import Store
    from rade.train.record import RunRecord

    Ended = Outcome[Job, RunRecord]


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="Names such as node-gcn, or TOML files of your own.")
    ],
    datasets: Annotated[list[str] | None, typer.Option(help="Only these; repeat it, or separate by commas.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these rows, by method or by the row's name.")] = None,
    backbones: Annotated[list[str] | None, typer.Option(help="Only these backbones.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of a cell, not the table's number; folds are repeated that often, else once."),
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

    from rade.commands.display import many
    from rade.data import DataError, load
    from rade.experiment import table
    from rade.experiment.grid import perform, run_all
    from rade.experiment.plan import plan, select
    from rade.experiment.store import open_store
    from rade.train.process import stop_on_signal
    from rade.train.settings import parse_assignment

    overrides = {name: value for text in set_ or () for name, value in parse_assignment(text).items()}
    every = [cell for name in dict.fromkeys(tables) for cell in table.cells(table.load(name))]
    chosen = select(every, names(datasets), names(methods), names(backbones))
    data = partial(load, root=data_root, download=not dry_run)
    tasks, problems = plan(chosen, data, seeds, protocol or "", overrides)
    if not tasks:
        raise DataError(problems[0])
    runs = open_store(store)
    there = runs.keys()
    jobs = {job.key: job for _, found in tasks for job in found}  # cells of several tables may share some
    queue = [job for key, job in jobs.items() if key not in there]
    console = Console(highlight=False, soft_wrap=True, quiet=json)
    _show_plan(tasks, there, console)
    for problem in problems:
        console.print(f"cannot run {problem}", markup=False)
    what = f"{many(len(queue), 'run')} to do" if queue else "nothing to do"
    console.print(f"{what}, {len(jobs)} in all; store: {store}", markup=False)
    ended: list[Ended] = []
    stopped = 0
    if queue and not dry_run:
        work, data_root = runs.work.absolute(), data_root and data_root.absolute()
        do = partial(perform, work=work, data_root=data_root, threads=threads, checkpoint_every=checkpoint_every)
        until = inf if budget is None else monotonic() + 3600 * budget
        waiting = (job for job in queue if monotonic() < until)
        with runs.writing(), stop_on_signal() as stop_asked:
            outcomes = run_all(do, waiting, workers=workers, scheduler=scheduler or "", stop_asked=stop_asked)
            ended = _keep(outcomes, len(queue), runs, console)
            stopped = stop_asked.code if stop_asked() else 0
        failed = sum(one.value is None for one in ended)
        done, left = many(len(ended) - failed, "run"), len(queue) - len(ended)
        console.print(f"{done} done, {failed} failed, {left} left")
    failures = [one for one in ended if one.value is None]
    for one in failures:
        console.print(f"failed: {one.argument} ({one.argument.key[:12]}): {one.failure}", markup=False)
    if json:
        typer.echo(_document(tasks, {one.argument.key: one.failure for one in failures}, runs.keys(), problems))
    if stopped:
        typer.echo("stopped; what is finished is in the store, and the same command continues", err=True)
    raise typer.Exit(stopped or (1 if failures or problems else 0))


def names(given: list[str] | None) -> tuple[str, ...]:
    """Names from a list whose elements may hold several, separated by commas.

    >>> names(["cora,citeseer", "cs"])
    ('cora', 'citeseer', 'cs')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())


def _show_plan(tasks: Planned, there: set[str], console: Console) -> None:
    """A line per cell: how many runs, and how many of them the store has."""
    from rade.commands.display import lined_up, printable

    words = ("table", "data set", "backbone", "row")
    lines = []
    for cell, jobs in tasks:
        named = (cell.experiment.name, cell.dataset, cell.backbone, cell.row.name)
        lines.append((*named, str(len(jobs)), str(sum(job.key in there for job in jobs))))
    printable(console).print(lined_up((*words, "runs", "in store"), lines, words))


def _document(tasks: Planned, failures: dict[str, str], there: set[str], problems: list[str]) -> str:
    """Every cell with the keys of its runs, and which of these the store has; what failed, and what cannot be run."""
    cells = [
        {"table": cell.experiment.name, "dataset": cell.dataset, "backbone": cell.backbone, "row": cell.row.name}
        | {"runs": {job.key: job.key in there for job in jobs}}
        for cell, jobs in tasks
    ]
    return jsonlib.dumps({"cells": cells, "failures": failures, "problems": problems}, indent=1)


def _keep(outcomes: Iterable[Ended], count: int, store: Store, console: Console) -> list[Ended]:
    """All outcomes, runs into the store; a line for every one that ends and, on a terminal, a bar with what remains."""
    from rade.commands.display import tracked
    from rade.report.words import ended

    kept: list[Ended] = []
    for outcome in tracked(outcomes, "runs", count, console):
        if outcome.value is not None:
            store.put(outcome.value)
        kept.append(outcome)
        said = outcome.failure if outcome.value is None else ended(outcome.value)
        console.print(f"{outcome.argument}: {said} ({len(kept)} of {count})", markup=False)
    return kept
