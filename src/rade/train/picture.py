"""The curves of a comparison as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rade.train.files import write_whole
from rade.train.result import Result


def draw_curves(results: Mapping[str, Sequence[Result]], path: Path) -> None:
    """Validation score, training loss and rates over epochs; a line is the mean over runs, a band ± one deviation."""
    from matplotlib.figure import Figure

    first = next(iter(results.values()))[0]
    settings = first["settings"]
    figure = Figure(figsize=(14, 3.6), layout="constrained")
    panels = figure.subplots(1, 4)
    titles = {"val": f"validation {first['metric']}", "loss": "training loss", "p": "drop rate p", "q": "add rate q"}
    for panel, (name, title) in zip(panels, titles.items()):
        for number, (method, runs) in enumerate(results.items()):
            _draw(panel, [run["history"][name] for run in runs], method, f"C{number}")
        panel.set_title(title)
        panel.set_xlabel("epoch")
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.suptitle(f"{settings['dataset']}, {settings['backbone']}, {len(next(iter(results.values())))} runs")
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))


def _draw(panel: Any, curves: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Runs stop at different epochs: each keeps its last value up to the longest."""
    length = max(len(curve) for curve in curves)
    table = np.array([np.pad(np.asarray(curve, float), (0, length - len(curve)), mode="edge") for curve in curves])
    epochs, mean, spread = np.arange(1, length + 1), table.mean(0), table.std(0)
    panel.plot(epochs, mean, color=color, label=label, linewidth=1.2)
    panel.fill_between(epochs, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
