"""How commands show what they do: tables that fit, and training live on a terminal, in lines elsewhere, or silent."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn, track
from rich.progress import Progress as Bar
from rich.table import Table

from rade.report.words import ended
from rade.statistics import many as many

if TYPE_CHECKING:
    from rade.data import Dataset
    from rade.train.loop import Progress
    from rade.train.record import RunRecord
    from rade.train.settings import Order, Settings

T = TypeVar("T")
# Seconds between two plain lines of the same run.
PATIENCE = 15.0


def lined_up(headings: Sequence[str], lines: Iterable[Sequence[str]], left: Collection[str], **look: Any) -> Table:
    """Lines of text under headings: columns named in `left` to the left, where texts may be broken; others right."""
    table = Table(**({"box": None, "pad_edge": False, "header_style": "bold"} | look))
    for heading in headings:
        text = heading in left
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for line in lines:
        table.add_row(*map(escape, line))
    return table


def printable(console: Console, width: int = 1000) -> Console:
    """The console for tables: piped output is not cut to 80 columns."""
    return console if console.is_terminal else Console(width=width, highlight=False, quiet=console.quiet)


def tracked(items: Iterable[T], what: str, count: int, console: Console) -> Iterable[T]:
    """The items; on a terminal a bar shows how far it is."""
    return track(items, what, count, console=console, transient=True, disable=not console.is_terminal)


class Display:
    """The runs of `rade train`: on a terminal a moving bar, elsewhere a line now and then; one line for each run."""

    def __init__(self, quiet: bool) -> None:
        self.console = Console(highlight=False, soft_wrap=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
        values = (TextColumn("{task.fields[values]}"), TimeRemainingColumn())
        lines = quiet or not self.console.is_terminal
        self.bar = Bar(*columns, *values, console=self.console, transient=True, disable=lines)
        self.task, self.last, self.told = TaskID(0), 0, 0.0

    def plan(self, order: Order, dataset: Dataset, out: Path) -> None:
        """Before anything runs: the settings, those of single methods under their names."""
        self.last = order.runs.stop
        self.console.print(f"[bold]{dataset.name}[/], {many(len(order.runs), 'run')} per method, results in {out}")
        sampled = order.settings[0].batch_size > 0 and dataset.level == "node"
        hidden = {"dataset", "method", "options"} | (set() if sampled else {"eval_batch_size", "fanouts"})
        shared = order.settings[0].model_dump(mode="json", exclude=hidden, exclude_defaults=True)
        self.console.print("  " + ", ".join(f"{name} {_short(value)}" for name, value in shared.items()))
        for settings in order.settings:
            options = ", ".join(f"{name} {_short(value)}" for name, value in settings.options.items())
            self.console.print(f"  {settings.method}: {options or 'no options'}")

    def begin(self, settings: Settings, run: int) -> None:
        """A run starts."""
        self.name, self.told = f"{settings.method} {run + 1}/{self.last}", time.monotonic()
        self.task = self.bar.add_task(self.name, total=settings.epochs, values="")

    def epoch(self, progress: Progress) -> None:
        """An epoch has ended; without a bar it is shown if the last line is old."""
        self.bar.update(self.task, completed=progress.epoch, values=describe(progress))
        if self.bar.disable and time.monotonic() - self.told >= PATIENCE:
            self.told = time.monotonic()
            self.console.print(f"{self.name}: epoch {progress.epoch}, {describe(progress)}")

    def end(self, result: RunRecord) -> None:
        """A run has ended: a line takes the place of its bar."""
        self.bar.remove_task(self.task)
        self.console.print(f"{self.name}: {ended(result)}")


def describe(progress: Progress) -> str:
    """The last epoch in a few words."""
    last = progress.last
    return f"loss {last['loss']:.4f}, val {100 * last['val']:.2f}, p {last['p']:.3f}, q {last['q']:.2g}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
