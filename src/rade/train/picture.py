"""The curves of a comparison as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rade.train.files import write_whole
from rade.train.record import RunRecord

LEGEND = "line: mean over runs; band: ± one standard deviation; dots: epochs that validation chose"


def draw_curves(results: Mapping[str, Sequence[RunRecord]], path: Path) -> None:
    """Validation and test score, training loss and rates over epochs, with the chosen epoch of every run."""
    figure = curves_figure(results)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))


def curves_figure(results: Mapping[str, Sequence[RunRecord]]) -> Any:
    """The picture itself; test curves only where they were recorded, the test scores of chosen epochs always."""
    from matplotlib.figure import Figure

    first = next(iter(results.values()))[0]
    settings, metric = first["settings"], first["metric"]
    figure = Figure(figsize=(17, 3.8), layout="constrained")
    titles = {"val": f"validation {metric}", "test": f"test {metric}", "loss": "training loss"}
    titles |= {"p": "drop rate p", "q": "add rate q"}
    for panel, (name, title) in zip(figure.subplots(1, len(titles)), titles.items()):
        for number, (method, runs) in enumerate(results.items()):
            curves = [run["history"][name] for run in runs if run["history"].get(name)]
            _draw(panel, curves, method, f"C{number}")
            if name in ("val", "test"):
                _mark(panel, runs, name, f"C{number}", method if not curves else None)
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.grid(alpha=0.3)
    figure.axes[0].legend()
    counts = sorted({len(runs) for runs in results.values()})
    many = "1 run" if counts == [1] else f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]}–{counts[-1]} runs"
    figure.suptitle(f"{settings['dataset']}, {settings['backbone']}, {many} per method ({LEGEND})", fontsize="medium")
    return figure


def _draw(panel: Any, curves: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Runs stop at different epochs: each keeps its last value up to the longest."""
    if not curves:
        return
    length = max(len(curve) for curve in curves)
    table = np.array([np.pad(np.asarray(curve, float), (0, length - len(curve)), mode="edge") for curve in curves])
    epochs, mean, spread = np.arange(1, length + 1), table.mean(0), table.std(0, ddof=min(1, len(curves) - 1))
    panel.plot(epochs, mean, color=color, label=label, linewidth=1.2)
    panel.fill_between(epochs, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)


def _mark(panel: Any, runs: Sequence[RunRecord], name: str, color: str, label: str | None) -> None:
    """A dot at the chosen epoch of every run."""
    epochs, scores = [run["best_epoch"] for run in runs], [run[name] for run in runs]
    panel.plot(epochs, scores, "o", color=color, markersize=4, markeredgecolor="white", label=label)
