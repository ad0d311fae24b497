"""Test accuracy on graphs with spurious edges, plain and denoised, from the rows in results/studies/noisy."""

import sys
from statistics import fmean, stdev

from matplotlib.figure import Figure
from scipy.special import stdtrit
from style import HERE, Colours, draw

ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.noisy_rows import BySeed, Store, accuracy, read  # noqa: E402 - from the folder above

from rade.data import resolve  # noqa: E402

ADDED = {"clean": 0, "add10": 0.1, "add30": 0.3, "add100": 1, "add200": 2}  # spurious edges for each real one
WAYS = {
    "plain": ("plain", "grey", "o"),
    "cut": ("least similar edges cut", "orange", "v"),
    "estimated-mean": ("Denoised, edges trusted alike", "green", "s"),
    "estimated": ("Denoised, edges trusted by features", "blue", "D"),
}


def panels() -> dict[str, dict[str, BySeed]]:
    """Rows by data set and corruption: a GCN that was trained plainly on the clean graph."""
    folder = ROOT / "results" / "studies" / "noisy"
    store = Store.of([*read(folder / "rows.jsonl.gz"), *read(folder / "table.jsonl.gz")])
    chosen = {key[0]: cells for key, cells in store.cells.items() if key[1:] == ("gcn", "none", "clean")}
    return {name: cells for name, cells in chosen.items() if "add100" in cells}


def content(figure: Figure, colours: Colours) -> None:
    """A panel per data set; bars are 95 % intervals over seeds."""
    found = panels()
    axes = figure.subplots(2, -(-len(found) // 2), sharex=True, sharey=True)
    for panel, (name, cells) in zip(axes.flat, found.items()):
        for way, (label, colour, marker) in WAYS.items():
            scores = {ADDED[one]: list(accuracy(cells[one], way).values()) for one in ADDED if one in cells}
            scores = {added: values for added, values in scores.items() if len(values) > 1}
            reach = [stdtrit(len(v) - 1, 0.975) * stdev(v) / len(v) ** 0.5 for v in scores.values()]
            style = {"marker": marker, "markersize": 4, "capsize": 2, "color": colours[colour], "label": label}
            panel.errorbar(list(scores), [fmean(values) for values in scores.values()], yerr=reach, **style)
        panel.set_title(f"{resolve(name).title}, {len(cells['add100'])} seeds", fontsize=10)
        panel.grid()
    for panel in axes[-1]:
        panel.set_xlabel("spurious edges for each real one")
    for panel in axes[:, 0]:
        panel.set_ylabel("test accuracy in %")
    axes[0][0].legend(fontsize=7)


if __name__ == "__main__":
    draw("noise", (9.5, 5.2), content)
