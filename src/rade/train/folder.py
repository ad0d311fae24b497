"""What `rade train` leaves in its folder: runs in `OUT/METHOD/run-N`, and a picture of their curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rade.errors import RadeError, RunError
from rade.train.files import ensure_writable, sole_writer
from rade.train.process import collect, rank
from rade.train.record import RunRecord
from rade.train.run import finished
from rade.train.settings import Settings
from rade.train.tasks import Problem

LEGEND = "line: mean over runs; band: ± one standard deviation; dots: epochs that validation chose"


def run_folder(out: Path, method: str, run: int) -> Path:
    """Where a run's files are; a method of one's own is named with a dot for the colon."""
    return out / method.replace(":", ".") / f"run-{run}"


@contextmanager
def holding(out: Path) -> Iterator[None]:
    """Be the only one to write there, the first process for all; another one is refused."""
    with ExitStack() as stack:
        failure = None
        if rank() == 0:
            try:
                busy = f"{out} is in use by another process; wait for it, or choose another folder with --out"
                stack.enter_context(sole_writer(out / ".writer", busy))
                ensure_writable(out)
            except RadeError as error:
                failure = error
        failure = collect(failure)[0]
        if failure is not None:
            raise failure
        yield


def refuse_to_lose(out: Path, settings: Settings, runs: Sequence[int], problem: Problem) -> None:
    """Stop before earlier files are replaced, unless the run is finished and would only be repeated."""
    for run in runs:
        folder = run_folder(out, settings.method, run)
        if (folder / "checkpoint.pt").exists():
            raise RunError(f"{folder} holds an unfinished run; --resume continues it, --overwrite starts it over")
        finished(folder, settings, run, problem)


def curves_figure(results: Mapping[str, Sequence[RunRecord]]) -> Any:
    """Validation and test score, training loss and rates over epochs, with the chosen epoch of every run.

    Test curves only where they were recorded, the test scores of chosen epochs always.
    """
    from matplotlib.figure import Figure

    first = next(iter(results.values()))[0]
    figure = Figure(figsize=(17, 3.8), layout="constrained")
    titles = {"val": f"validation {first.metric}", "test": f"test {first.metric}", "loss": "training loss"}
    titles |= {"p": "drop rate p", "q": "add rate q"}
    for panel, (name, title) in zip(figure.subplots(1, len(titles)), titles.items()):
        for number, (method, runs) in enumerate(results.items()):
            curves = [run.history[name] for run in runs if run.history.get(name)]
            _draw(panel, curves, method, f"C{number}")
            if name in ("val", "test"):
                epochs, scores = [run.best_epoch for run in runs], [getattr(run, name) for run in runs]
                label = None if curves else method
                panel.plot(epochs, scores, "o", color=f"C{number}", markersize=4, markeredgecolor="white", label=label)
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.grid(alpha=0.3)
    figure.axes[0].legend()
    count = len(next(iter(results.values())))
    names = f"{first.settings['dataset']}, {first.settings['backbone']}, {count} run{'s' if count > 1 else ''}"
    figure.suptitle(f"{names} per method ({LEGEND})", fontsize="medium")
    return figure


def _draw(panel: Any, curves: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Runs stop at different epochs: each keeps its last value up to the longest."""
    if not curves:
        return
    length = max(len(curve) for curve in curves)
    table = np.array([np.pad(np.asarray(curve, float), (0, length - len(curve)), mode="edge") for curve in curves])
    epochs, mean, band = np.arange(1, length + 1), table.mean(0), table.std(0, ddof=min(1, len(curves) - 1))
    panel.plot(epochs, mean, color=color, label=label, linewidth=1.2)
    panel.fill_between(epochs, mean - band, mean + band, color=color, alpha=0.15, linewidth=0)
