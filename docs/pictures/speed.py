"""What an epoch of a PyG loop costs with `rade.RADE(net)`, as ratios, from results/studies/speed.

    python -m benchmarks.speed wrapped --json > results/studies/speed/constant.json

Run this on an otherwise idle machine.
"""

import json
import re

from matplotlib.figure import Figure
from style import HERE, Colours, draw

from rade.data import resolve

MEASURED = HERE.parents[1] / "results" / "studies" / "speed" / "constant.json"
MODELS = {"gcn": "GCN", "sage": "SAGE", "gin": "GIN", "gat": "GAT"}


def ratios() -> dict[tuple[str, str], float]:
    """An epoch with RADE over one without, by data set and model."""
    found = {}
    for row in json.loads(MEASURED.read_text("utf-8"))["rows"]:
        name = re.fullmatch(r"RADE, \w+, (\w+) on ([\w-]+)", row["name"])
        if name and row["ratio"] is not None:
            found[name[2], name[1]] = row["ratio"]
    return found


def content(figure: Figure, colours: Colours) -> None:
    """A panel per data set, a line per model, from 1, the loop without RADE, to the ratio."""
    found = ratios()
    datasets = list(dict.fromkeys(name for name, _ in found))
    panels = figure.subplots(1, len(datasets), sharex=True, sharey=True, squeeze=False)[0]
    for panel, dataset in zip(panels, datasets):
        panel.axvline(1, color=colours["grey"], linewidth=1)
        for height, model in enumerate(MODELS):
            if (dataset, model) in found:
                ratio = found[dataset, model]
                panel.plot([1, ratio], [height, height], color=colours["blue"], linewidth=3, alpha=0.5)
                panel.plot(ratio, height, "o", color=colours["blue"])
                shift, side = (8, "left") if ratio > 1 else (-8, "right")
                look = {"ha": side, "va": "center", "fontsize": 9}
                panel.annotate(f"{ratio:.2g}", (ratio, height), xytext=(shift, 0), textcoords="offset points", **look)
        panel.set(title=resolve(dataset).title, xscale="log", xlim=(0.01, 30))
        panel.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
        panel.grid(axis="x")
    panels[0].set_yticks(range(len(MODELS)), list(MODELS.values()))
    panels[0].set_ylim(len(MODELS) - 0.4, -0.6)
    figure.supxlabel(
        "epoch of a PyG loop with rade.RADE(net) / without it, CPU time; left of 1 it is faster", fontsize=9
    )


if __name__ == "__main__":
    draw("speed", (9.5, 2.8), content)
