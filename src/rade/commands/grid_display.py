"""How a grid shows itself: live on a terminal, in plain lines elsewhere, silent for machines."""

import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from rade.commands.narrow import printable
from rade.commands.shown import Shown
from rade.experiment.engine import Event
from rade.experiment.grid import Grid
from rade.experiment.jobs import Job
from rade.experiment.pilots import PATIENCE
from rade.report.words import many

# Seconds between two plain lines about progress.
_PATIENCE = 60.0


class GridDisplay(Shown):
    """Shows nothing; the base of the others."""

    def pilots(self, count: int) -> None:
        """A few epochs are timed first."""

    def timed(self, job: Job, seconds: float) -> None:
        """One of them is done."""

    def plan(self, grid: Grid, workers: int, store: Path, problems: list[str]) -> None:
        """Before anything runs: the cells and how long they will take."""

    def event(self, event: Event, grid: Grid, workers: int) -> None:
        """Something happened to a run."""

    def end(self, grid: Grid, dry_run: bool) -> None:
        """All is done that could be."""


class GridLines(GridDisplay):
    """Plain lines: one per finished or failed run, with what is left."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.told = time.monotonic()

    def pilots(self, count: int) -> None:
        """Say why nothing seems to happen."""
        kinds = "1 kind" if count == 1 else f"{count} kinds"
        self.console.print(f"timing a few epochs of {kinds} of runs for the estimate, {PATIENCE:.0f} s at most")

    def timed(self, job: Job, seconds: float) -> None:
        """A line for each."""
        settings = job.settings
        what = f"{settings.dataset} {settings.backbone} {settings.method}"
        self.console.print(escape(f"  {what}: {seconds:.2g} s an epoch"))

    def plan(self, grid: Grid, workers: int, store: Path, problems: list[str]) -> None:
        """A table of cells, then the total."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("table", "data set", "backbone", "row"):
            table.add_column(heading, no_wrap=True)
        for heading in ("runs", "in store", "to do", "time"):
            table.add_column(heading, justify="right", no_wrap=True)
        queued = {job.key for job in grid.queue}
        for task in grid.tasks:
            mine = [job.key for job in task.jobs if job.key in queued]
            counts = (len(task.jobs), len(task.jobs) - grid.missing(task), len(mine))
            names = (task.cell.experiment.name, task.cell.dataset, task.cell.backbone, task.cell.row.name)
            table.add_row(*map(escape, names), *map(str, counts), _total(grid, mine))
        printable(self.console).print(table)
        for problem in problems:
            self.console.print(escape(f"cannot run {problem}"))
        left = _total(grid, list(grid.expected), workers)
        what = f"{many(len(grid.queue), 'run')} to do" if grid.queue else "nothing to do"
        time_left = f"; {left} with {workers} at a time" if left else ""
        self.console.print(escape(f"{what}, {len(grid.jobs)} in all{time_left}; store: {store}"))
        if grid.rough:
            self.console.print("~ is guessed from sizes of data and model: the true time may be a third or three times")

    def event(self, event: Event, grid: Grid, workers: int) -> None:
        """A line when a run ends, and now and then for those under way."""
        if event.kind in ("done", "failed", "lost"):
            self.console.print(escape(f"{_sentence(event)}; {status(grid, workers)}"))
            self.told = time.monotonic()
        elif time.monotonic() - self.told >= _PATIENCE:
            self.console.print(escape(f"{len(grid.running)} under way; {status(grid, workers)}"))
            self.told = time.monotonic()

    def end(self, grid: Grid, dry_run: bool) -> None:
        """What was done, what failed, what is left."""
        left = sum(job.key not in grid.done and job.key not in grid.failed for job in grid.queue)
        if not dry_run:
            self.console.print(f"{many(grid.finished, 'run')} done, {len(grid.failed)} failed, {left} left")
        for who, count in Counter(grid.elsewhere.values()).items():
            self.console.print(escape(f"{many(count, 'run')} left to another grid on this store: {who}"))
        for job, reason in grid.failed.values():
            self.console.print(escape(f"failed: {job} ({job.key[:12]}): {reason}"))


class GridLive(GridLines):
    """A bar for the whole and one for each run under way; failures stay in sight above them."""

    def __init__(self) -> None:
        super().__init__()
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(bar_width=24)]
        columns += [TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[values]}")]
        self.bar = Bar(*columns, console=self.console, transient=True)
        self.whole: TaskID | None = None
        self.lines: dict[str, TaskID] = {}

    def __enter__(self) -> None:
        self.bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def event(self, event: Event, grid: Grid, workers: int) -> None:
        key = event.job.key
        if self.whole is None:
            self.whole = self.bar.add_task("all runs", total=len(grid.queue), values="")
        if event.kind == "started" and key not in self.lines:
            name = escape(str(event.job))
            self.lines[key] = self.bar.add_task(name, total=event.job.settings.epochs, values="")
        elif event.kind == "epoch" and key in self.lines:
            self.bar.update(self.lines[key], completed=event.value)
        elif event.kind in ("done", "failed", "stopped") and key in self.lines:
            self.bar.remove_task(self.lines.pop(key))
        if event.kind in ("failed", "lost"):
            self.console.print(escape(_sentence(event)))
        self.bar.update(self.whole, completed=grid.finished, values=status(grid, workers))


def choose_grid_display(json: bool) -> GridDisplay:
    """Live on a terminal, lines elsewhere, nothing for machines."""
    if json:
        return GridDisplay()
    return GridLive() if sys.stdout.isatty() else GridLines()


def status(grid: Grid, workers: int) -> str:
    """Cells, runs, failures and time left in a line."""
    whole = sum(grid.missing(task) == 0 for task in grid.tasks)
    text = f"cells {whole}/{len(grid.tasks)}, runs {grid.finished}/{len(grid.queue)}"
    text += f", {duration(grid.seconds_left(workers))} left"
    return text + (f", {len(grid.failed)} failed" if grid.failed else "")


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(42), duration(5000), duration(3 * 86400)
    ('42 s', '1:23 h', '72:00 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"


def _total(grid: Grid, keys: list[str], workers: int = 1) -> str:
    """The time of some runs, with a mark if that of one of them is a guess."""
    if not keys:
        return ""
    mark = "~" if grid.rough.intersection(keys) else "about"
    return f"{mark} {duration(sum(grid.expected[key] for key in keys) / workers)}"


def _sentence(event: Event) -> str:
    if event.kind != "done":
        return f"{event.job}: {event.value}"
    row = event.value
    scores = f"val {100 * row['val']:.2f}, test {100 * row['test']:.2f}"
    return f"{event.job}: {scores} at epoch {row['best_epoch']} of {row['epochs']}, {row['timing']['seconds']:.1f} s"
