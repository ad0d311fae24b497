"""Test accuracy by the share of labelled nodes, at the end of training and at its best epoch, from results/studies."""

import gzip
import json
from collections import defaultdict
from statistics import fmean, stdev

from matplotlib.figure import Figure
from style import HERE, Colours, draw

from rade.data import resolve

ROWS = HERE.parents[1] / "results" / "studies" / "few-labels" / "few_labels.jsonl.gz"
DATASETS = ("cora", "citeseer")  # the others have one or two seeds
KINDS = {
    "none": ("plain", "grey"),
    "drops": ("drops alone", "green"),
    "drops and additions": ("drops and additions", "orange"),
}
WHEN = {"last": ("after 200 epochs", "-"), "best": ("best validation epoch", ":")}


def scores() -> dict[tuple[str, str], dict[float, dict[int, dict[str, float]]]]:
    """Rows by data set and kind, share of labels and seed; of rows that were computed twice the last."""
    found: dict[tuple[str, str], dict[float, dict[int, dict[str, float]]]] = defaultdict(lambda: defaultdict(dict))
    for row in map(json.loads, gzip.decompress(ROWS.read_bytes()).splitlines()):
        found[row["dataset"], row["kind"]][row["share"]][row["seed"]] = row
    return found


def content(figure: Figure, colours: Colours) -> None:
    """A panel per data set; bars are standard errors over seeds."""
    rows = scores()
    panels = figure.subplots(1, len(DATASETS), sharey=True)
    for panel, dataset in zip(panels, DATASETS):
        for kind, (label, colour) in KINDS.items():
            shares = sorted(rows[dataset, kind].items())
            for when, (epoch, dash) in WHEN.items():
                values = [[100 * row[when] for row in of.values()] for _, of in shares]
                errors = [stdev(one) / len(one) ** 0.5 for one in values]
                style = {"color": colours[colour], "linestyle": dash, "marker": "o", "markersize": 4, "capsize": 2}
                places, named = [100 * share for share, _ in shares], f"{label}, {epoch}"
                panel.errorbar(places, [fmean(one) for one in values], yerr=errors, label=named, **style)
        seeds = len(shares[0][1])
        panel.set(title=f"{resolve(dataset).title}, {seeds} seeds", xscale="log", xlabel="labelled nodes in %")
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.minorticks_off()
        panel.grid()
    panels[0].set_ylabel("test accuracy in %")
    panels[0].legend(fontsize=8, loc="lower right", bbox_to_anchor=(0.94, 0.0))  # browsers set text wider


if __name__ == "__main__":
    draw("labels", (9.5, 3.6), content)
