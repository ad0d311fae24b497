"""How commands show what they do: tables that fit, and training live on a terminal, in lines elsewhere, or silent."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from rade.statistics import many as many
from rade.train.record import LATER

if TYPE_CHECKING:
    from rade.data import Dataset
    from rade.train.folder import Summaries
    from rade.train.loop import Progress
    from rade.train.process import Solo
    from rade.train.record import RunRecord
    from rade.train.settings import Order, Settings

_WIDE = Console(width=1000)
# Seconds between two plain lines of the same run.
PATIENCE = 15.0
# Settings without a meaning where every step takes whole graphs.
SAMPLING = {"eval_batch_size", "fanouts"}
# Settings that are told where somebody asked for them.
UNUSUAL = {"corrupt", *LATER}


def fitting(build: Callable[[Collection[str]], Table], dispensable: Sequence[str], console: Console) -> list[str]:
    """Which of the dispensable columns to hide, the first ones first, so that `build(hidden)` fits."""
    hidden: list[str] = []
    for column in dispensable:
        if Measurement.get(_WIDE, _WIDE.options, build(hidden)).minimum <= console.width:
            break
        hidden.append(column)
    return hidden


def printable(console: Console, width: int = 1000) -> Console:
    """The console for tables: piped output is not cut to 80 columns."""
    return console if console.is_terminal else Console(width=width, highlight=False, quiet=console.quiet)


class Display:
    """Shows nothing; the base of the others."""

    visible = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def plan(self, order: Order, dataset: Dataset, out: Path) -> None:
        """Before anything runs: the settings that will be used."""

    def begin(self, settings: Settings, run: int) -> None:
        """A run starts."""

    def epoch(self, progress: Progress) -> None:
        """An epoch has ended."""

    def end(self, result: RunRecord) -> None:
        """A run has ended."""

    def comparison(self, found: Summaries) -> None:
        """All is done."""


class Silent(Display):
    """Nothing but the final JSON document."""

    visible = True


class Lines(Display):
    """Plain lines: one per run, and one now and then within a long run."""

    visible = True

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.last = 0

    def plan(self, order: Order, dataset: Dataset, out: Path) -> None:
        """The settings, those of single methods under their names."""
        self.last = order.first + order.runs
        runs = "1 run" if order.runs == 1 else f"{order.runs} runs"
        self.console.print(f"[bold]{dataset.name}[/], {runs} per method, results in {out}", markup=True)
        sampled = order.settings[0].batch_size > 0 and dataset.level == "node"
        hidden = {"dataset", "method", "options"} | (set() if sampled else SAMPLING)
        shared = order.settings[0].model_dump(mode="json", exclude=hidden)
        shared = {name: value for name, value in shared.items() if name not in UNUSUAL or value}
        if not shared["threads"]:
            import torch

            shared["threads"] = torch.get_num_threads()
        self.console.print("  " + ", ".join(f"{name} {_short(value)}" for name, value in shared.items()))
        for settings in order.settings:
            options = ", ".join(f"{name} {_short(value)}" for name, value in settings.options.items())
            self.console.print(f"  {settings.method}: {options or 'no options'}")

    def begin(self, settings: Settings, run: int) -> None:
        """Remember the run's name."""
        self.name = f"{settings.method} {run + 1}/{self.last}"
        self.settings = settings
        self.told = self.started = time.monotonic()
        self.first: int | None = None

    def epoch(self, progress: Progress) -> None:
        """A line if the last one is old."""
        if self.first is None:
            self.first = progress.epoch - 1
        now = time.monotonic()
        if now - self.told >= PATIENCE:
            self.told = now
            self.console.print(f"{self.name}: {describe(progress)}, {self._pace(progress)}")

    def end(self, result: RunRecord) -> None:
        self.console.print(
            f"{self.name}: val {100 * result.val:.2f}, test {100 * result.test:.2f} at epoch "
            f"{result.best_epoch} of {result.epochs}, {result.timing.seconds:.1f} s"
        )

    def comparison(self, found: Summaries) -> None:
        """The table, and where the files are."""
        first = found.each[0]
        columns = {
            "method": [summary.method for summary in found.each],
            "score": [str(summary) for summary in found.each],
            "difference [95 %]": [str(gap) if gap else "" for gap in found.differences],
            "epoch": ["" if summary.epoch is None else str(summary.epoch) for summary in found.each],
            "runs": [str(len(summary.scores)) for summary in found.each],
            "seconds": [f"{summary.seconds:.1f}" for summary in found.each],
        }
        title = f"{first.metric} in %{', mean ± std' if len(first.scores) > 1 else ''} ({first.selection})"
        if any(found.differences):
            title += f"; differences to {first.method}, run by run"
        filled = {heading: cells for heading, cells in columns.items() if any(cells)}
        console = printable(self.console)
        order = [name for name in ("seconds", "runs", "epoch", "difference [95 %]") if name in filled]
        hidden = fitting(lambda hidden: _table(title, filled, hidden), order, console)
        console.print(_table(title, filled, hidden), soft_wrap=False)
        self.console.print(f"curves: {found.picture}\nresults: {found.folder}/METHOD/run-N/result.json")

    def _pace(self, progress: Progress) -> str:
        assert self.first is not None
        speed = (progress.epoch - self.first) / max(time.monotonic() - self.started, 1e-9)
        return f"{speed:.1f} epochs/s, at most {(self.settings.epochs - progress.epoch) / speed:.0f} s left"


class Live(Lines):
    """A moving bar for the present run, a line for each finished one."""

    def __init__(self) -> None:
        super().__init__()
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(bar_width=24)]
        columns += [TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[values]}")]
        self.bar = Bar(*columns, TimeRemainingColumn(), console=self.console, transient=True)
        self.task = TaskID(0)

    def __enter__(self) -> None:
        self.bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def begin(self, settings: Settings, run: int) -> None:
        super().begin(settings, run)
        self.task = self.bar.add_task(self.name, total=settings.epochs, values="")

    def epoch(self, progress: Progress) -> None:
        if self.first is None:
            self.first = progress.epoch - 1
        speed = (progress.epoch - self.first) / max(time.monotonic() - self.started, 1e-9)
        values = f"{describe(progress)}, {speed:.1f} epochs/s"
        self.bar.update(self.task, completed=progress.epoch, values=values)

    def end(self, result: RunRecord) -> None:
        """Replace the bar by a line."""
        self.bar.remove_task(self.task)
        super().end(result)


def _table(title: str, columns: dict[str, list[str]], hidden: Collection[str]) -> Table:
    """All columns but the hidden ones; a method's name may be broken, a number never."""
    table = Table(title=title, title_justify="left")
    shown = {heading: cells for heading, cells in columns.items() if heading not in hidden}
    for heading in shown:
        if heading == "method":
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in zip(*shown.values()):
        table.add_row(*row)
    return table


def choose_display(json: bool, process: Solo) -> Display:
    """Live on a terminal, lines elsewhere, nothing for machines and for all processes but the first."""
    if process.rank > 0:
        return Display()
    if json:
        return Silent()
    return Live() if sys.stdout.isatty() else Lines()


def describe(progress: Progress) -> str:
    """The last epoch in a few words."""
    last = progress.last
    return (
        f"epoch {progress.epoch}, loss {last['loss']:.4f}, val {100 * last['val']:.2f}, "
        f"p {last['p']:.3f}, q {last['q']:.2g}"
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
