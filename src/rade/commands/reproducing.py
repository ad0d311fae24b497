"""What `rade reproduce` does once its options are read."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import typer

from rade.commands.grid_display import GridDisplay, choose_grid_display
from rade.data import DataError, load
from rade.experiment.cluster import Cluster
from rade.experiment.engine import Engine
from rade.experiment.estimate import Timed, Timings
from rade.experiment.grid import Grid, Shard, missing_jobs, ready, work_off
from rade.experiment.jobs import Facts, Task, Wish, plan, select
from rade.experiment.pilots import Notebook, fly
from rade.experiment.pool import LocalPool
from rade.experiment.store import Store
from rade.experiment.table import cells, find
from rade.experiment.work import Place
from rade.train.checkpoint import StopAsked
from rade.train.plan import parse_assignment
from rade.train.record import origin
from rade.train.stop import stop_on_signal


@dataclass(frozen=True)
class Order:
    """The options of `rade reproduce`."""

    tables: Sequence[str]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    seeds: int | None
    protocol: str
    assignments: tuple[str, ...]
    store: Path
    workers: int
    threads: int
    budget: float | None
    shard: str
    scheduler: str
    checkpoint_every: int
    data_root: Path | None
    dry_run: bool
    json: bool

    def tasks(self) -> tuple[list[Task], list[str]]:
        """The cells with their runs, and what cannot be run for want of data."""
        overrides: dict[str, Any] = {}
        for text in self.assignments:
            overrides |= parse_assignment(text)
        wish = Wish(self.datasets, self.methods, self.backbones, self.seeds, self.protocol, overrides)
        tables = [find(name) for name in dict.fromkeys(self.tables)]
        chosen = select((cell for table in tables for cell in cells(table)), wish)
        tasks, problems = plan(chosen, wish, self._facts())
        if not tasks:
            raise DataError(problems[0])
        return tasks, problems

    def _facts(self) -> Any:
        @cache
        def facts(name: str) -> Facts:
            dataset = load(name, self.data_root, download=not self.dry_run)
            return Facts(origin(dataset), dataset.folds)

        return facts

    def engine(self) -> Engine:
        """Where runs go."""
        return Cluster(self.scheduler) if self.scheduler else LocalPool(self.workers)

    def place(self) -> Place:
        """Where workers find things."""
        root = None if self.data_root is None else self.data_root.absolute()
        return Place(self.store.absolute(), root, self.threads, self.checkpoint_every)


def execute(order: Order) -> None:
    """Plan, estimate, run, report; exit code 1 if a run failed or has no data, 128 + n after signal n."""
    shard = Shard.parse(order.shard)
    display = choose_grid_display(order.json)
    store = Store(order.store)
    tasks, problems = order.tasks()
    engine = order.engine()
    if not order.dry_run:
        store.open()
    rows, damaged = store.rows(curves=False)
    for problem in damaged:
        typer.echo(f"skipped: {problem}", err=True)
    done = {row["key"] for row in rows}
    with closing(engine), stop_on_signal() as stop_asked:
        pilots = _pilots(order, missing_jobs(tasks, done, shard), rows, engine, display, stop_asked)
        grid = ready(tasks, done, shard, Timings.of(rows, pilots), store)
        display.plan(grid, engine.workers, store.folder, problems)
        if not order.dry_run and not stop_asked():
            with display:
                budget = inf if order.budget is None else 3600 * order.budget
                for event in work_off(grid, engine, order.place(), stop_asked, budget):
                    display.event(event, grid, engine.workers)
        stopped = stop_asked()
    _report(order, grid, problems, display)
    if stopped:
        typer.echo("stopped, with the state of every run saved; the same command continues", err=True)
        raise typer.Exit(stop_asked.code)
    if grid.failed or problems:
        raise typer.Exit(1)


def _pilots(
    order: Order, jobs: list[Any], rows: list[Any], engine: Engine, display: GridDisplay, stop_asked: StopAsked
) -> list[Timed]:
    """Epochs that were timed for plans before, and those that are timed now."""
    notebook = Notebook.beside(order.place())
    pilots = notebook.read()
    unknown = Timings.of(rows, pilots).unknown(jobs)
    if unknown:
        display.pilots(len(unknown))
        pilots += fly(unknown, engine, order.place(), stop_asked, display.timed)
        notebook.write(pilots)
    return pilots


def _report(order: Order, grid: Grid, problems: list[str], display: GridDisplay) -> None:
    if not order.json:
        display.end(grid, dry_run=order.dry_run)
        return
    jobs = grid.jobs
    document = {
        "store": str(order.store),
        "cells": [
            {"table": task.cell.experiment.name, "row": task.cell.row.name, "dataset": task.cell.dataset}
            | {"backbone": task.cell.backbone, "candidates": task.candidates, "runs": len(task.jobs)}
            | {"missing": grid.missing(task), "keys": [job.key for job in task.jobs]}
            for task in grid.tasks
        ],
        "runs": len(jobs),
        "missing": sum(key not in grid.done for key in jobs),
        "finished": grid.finished,
        "failures": [{"run": str(job), "key": job.key, "reason": reason} for job, reason in grid.failed.values()],
        "problems": problems,
        "elsewhere": grid.elsewhere,
        "seconds_left": grid.seconds_left(order.workers),
        "rough": bool(grid.rough),
    }
    typer.echo(json.dumps(document, indent=1))
