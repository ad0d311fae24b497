"""What an epoch of a PyG loop costs with `rade.RADE(net)`, as ratios, from results/studies/speed.

    python benchmarks/speed.py wrapped --json > results/studies/speed/constant.json
    python benchmarks/speed.py wrapped --rule gradnorm --json > results/studies/speed/gradnorm.json

Run these on an otherwise idle machine.
"""

import json
import re

from matplotlib.figure import Figure
from style import HERE, Colours, draw

from rade.data import resolve

FOLDER = HERE.parents[1] / "results" / "studies" / "speed"
RULES = {"constant": ("constant rates (default)", "blue"), "gradnorm": ("rates that adapt, GradNorm", "orange")}
MODELS = {"gcn": "GCN", "sage": "SAGE", "gin": "GIN", "gat": "GAT"}


def ratios(rule: str) -> dict[tuple[str, str], float]:
    """An epoch with RADE over one without, by data set and model; none where nothing was measured."""
    file = FOLDER / f"{rule}.json"
    rows = json.loads(file.read_text("utf-8"))["rows"] if file.exists() else []
    found = {}
    for row in rows:
        name = re.fullmatch(r"RADE, \w+, (\w+) on ([\w-]+)", row["name"])
        if name and row["ratio"] is not None:
            found[name[2], name[1]] = row["ratio"]
    return found


def content(figure: Figure, colours: Colours) -> None:
    """A panel per data set, a line per model and rule, from 1, the loop without RADE, to the ratio."""
    measured = {rule: found for rule in RULES if (found := ratios(rule))}
    datasets = list(dict.fromkeys(name for found in measured.values() for name, _ in found))
    panels = figure.subplots(1, len(datasets), sharex=True, sharey=True, squeeze=False)[0]
    for panel, dataset in zip(panels, datasets):
        panel.axvline(1, color=colours["grey"], linewidth=1)
        for shift, (rule, found) in enumerate(measured.items()):
            label, colour = RULES[rule]
            for height, model in enumerate(MODELS):
                if (dataset, model) in found:
                    place, ratio = height + 0.35 * shift, found[dataset, model]
                    panel.plot([1, ratio], [place, place], color=colours[colour], linewidth=3, alpha=0.5)
                    panel.plot(ratio, place, "o", color=colours[colour], label=label if height == 0 else None)
                    side = {"ha": "left" if ratio > 1 else "right", "va": "center", "fontsize": 9}
                    panel.annotate(
                        f"{ratio:.2g}",
                        (ratio, place),
                        xytext=(8 if ratio > 1 else -8, 0),
                        textcoords="offset points",
                        **side,
                    )
        panel.set(title=resolve(dataset).title, xscale="log", xlim=(0.01, 30))
        panel.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
        panel.grid(axis="x")
    panels[0].set_yticks([place + 0.175 * (len(measured) - 1) for place in range(len(MODELS))], list(MODELS.values()))
    panels[0].set_ylim(len(MODELS) - 0.4, -0.6)
    figure.supxlabel(
        "epoch of a PyG loop with rade.RADE(net) / without it, CPU time; left of 1 it is faster", fontsize=9
    )
    if len(measured) > 1:
        panels[0].legend(fontsize=8)


if __name__ == "__main__":
    draw("speed", (9.5, 2.8), content)
