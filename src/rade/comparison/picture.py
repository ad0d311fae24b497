"""The picture of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rade.statistics import Paired


def drawn(gaps: Mapping[str, Sequence[float]], found: Mapping[str, Paired], against: str, metric: str) -> Any:
    """A line for each method: its runs as dots, the mean as a diamond, the 95 % interval as a bar."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 1.2 + 0.5 * len(gaps)), layout="constrained")
    panel = figure.subplots()
    panel.axvline(0, color="0.5", linewidth=1)
    for height, (method, values) in enumerate(gaps.items()):
        result, color = found[method], f"C{height}"
        panel.plot(values, [height - 0.2] * len(values), "o", color=color, alpha=0.5, markersize=5, markeredgewidth=0)
        if result.low is not None and result.high is not None:
            panel.plot([result.low, result.high], [height, height], color=color, linewidth=3)
        panel.plot([result.mean], [height], "D", color=color, markersize=7)
    panel.set_yticks(range(len(gaps)), list(gaps))
    panel.set_ylim(len(gaps) - 0.5, -0.5)
    panel.set_xlabel(f"{metric}: points above {against} (dots: seeds, bar: 95 % interval of the mean)")
    return figure
