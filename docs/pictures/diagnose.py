"""Sensitivity by distance and flips by noise on Cora, as `rade diagnose RUN --out results` left them in results/."""

import json

from matplotlib.figure import Figure
from style import HERE, Colours, draw

FOUND = json.loads(next((HERE.parents[1] / "results").rglob("diagnoses/cora-*.json")).read_text(encoding="utf-8"))
OPERATORS = {"clean": ("clean (and RADE-OF)", "blue", "o"), "rade-ofs": ("RADE-OFS", "orange", "s")}
NOISE = {"drop": ("edges lost", "-"), "add": ("spurious edges", "--"), "both": ("both", ":")}


def content(figure: Figure, colours: Colours) -> None:
    """Nothing is drawn where the sensitivity is 0."""
    left, right = figure.subplots(1, 2)
    for name, (label, colour, marker) in OPERATORS.items():
        style = {"color": colours[colour], "marker": marker, "markersize": 4}
        measured = FOUND["operators"][name]
        steps = [step for step in measured["steps"] if step["distance"] >= 0 and step["sensitivity"] > 0]
        left.plot(*zip(*((step["distance"], step["sensitivity"]) for step in steps)), label=label, **style)
        for kind, (words, dash) in NOISE.items():
            levels, shares = zip(*measured["flips"][kind].items())
            percent = [[100 * float(value) for value in values] for values in (levels, shares)]
            right.plot(*percent, linestyle=dash, label=f"{label}, {words}", **style)
    left.axvline(
        FOUND["layers"] + 0.5, color=colours["faint"], linestyle=":", label=f"{FOUND['layers']} layers end here"
    )
    left.set(yscale="log", xlabel="distance of j from i, in edges", ylabel="mean ‖∂h_i/∂h⁰_j‖", title="sensitivity")
    right.set(xlabel="noise, % of the edges", ylabel="predictions that change, %", ylim=(0, None), title="flips")
    for panel in (left, right):
        panel.legend(fontsize=8)


if __name__ == "__main__":
    draw("diagnose", (9.5, 3.6), content)
