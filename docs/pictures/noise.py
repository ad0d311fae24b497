"""Test accuracy on damaged graphs, by how much is missing or spurious: trained on clean graphs, embedded block model.

Measures for a few minutes if noise.json is not there, else draws what it holds.
"""

import json
from itertools import chain

import numpy as np
from matplotlib.figure import Figure
from style import HERE, Colours, draw

from rade.commands.demo import Stress, stress
from rade.data import load
from rade.train.settings import make_order

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
METHODS = {"none": "text", "dropout": "green", "rade-of": "blue", "rade-ofs": "orange"}
GRAPHS = 10


def measured() -> Stress:
    """Every method on every graph; the numbers are kept beside this script."""
    file = HERE / "noise.json"
    if not file.exists():
        missing = {f"missing {level}": (level, 0.0) for level in LEVELS}
        spurious = {f"spurious {level}": (0.0, level) for level in LEVELS}
        plan = make_order({"dataset": "csbm", "method": list(METHODS)})
        graphs = [load("csbm", seed=seed) for seed in range(GRAPHS)]
        found = stress(graphs, plan.settings, conditions=dict(chain(missing.items(), spurious.items())))
        file.write_text(json.dumps(found.to_json(), indent=1) + "\n")
    return Stress(**dict(sorted(json.loads(file.read_text()).items(), reverse=True)))


STUDY = measured()


def content(figure: Figure, colours: Colours) -> None:
    """Means with 95 % intervals over graphs."""
    panels = figure.subplots(1, 2, sharey=True)
    labels = {"missing": "share of edges removed", "spurious": "random edges added, per real edge"}
    for panel, (kind, label) in zip(panels, labels.items()):
        for number, (method, colour) in enumerate(METHODS.items()):
            bands = [STUDY.interval(method, f"{kind} {level}") for level in LEVELS]
            mean = np.array([band.mean for band in bands])
            reach = np.array([(band.high or band.mean) - band.mean for band in bands])
            where = np.array(LEVELS) + 0.012 * (number - 1.5)  # side by side, or the bars would hide each other
            panel.errorbar(where, mean, reach, color=colours[colour], marker="o", markersize=3, capsize=2, label=method)
        panel.set_xlabel(label)
        panel.grid()
    panels[0].set_ylabel("test accuracy in %")
    panels[1].legend()
    figure.suptitle(f"mean and 95 % interval over {GRAPHS} graphs", fontsize=10)


if __name__ == "__main__":
    draw("noise", (9.5, 3.2), content)
