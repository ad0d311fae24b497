"""Sensitivity by distance on Cora, as `rade diagnose RUN --json` printed it."""

import json

from matplotlib.figure import Figure
from style import HERE, Colours, draw

FOUND = json.loads(next((HERE.parents[1] / "results").rglob("diagnoses/cora-*.json")).read_text(encoding="utf-8"))
OPERATORS = {"clean": ("clean (and RADE-OF)", "blue", "o"), "rade-ofs": ("RADE-OFS", "orange", "s")}


def content(figure: Figure, colours: Colours) -> None:
    """Nothing is drawn where the sensitivity is 0."""
    panel = figure.subplots()
    for name, (label, colour, marker) in OPERATORS.items():
        style = {"color": colours[colour], "marker": marker, "markersize": 4}
        measured = FOUND["operators"][name]
        steps = [step for step in measured["steps"] if step["distance"] >= 0 and step["sensitivity"] > 0]
        panel.plot(*zip(*((step["distance"], step["sensitivity"]) for step in steps)), label=label, **style)
    panel.axvline(
        FOUND["layers"] + 0.5, color=colours["faint"], linestyle=":", label=f"{FOUND['layers']} layers end here"
    )
    panel.set(yscale="log", xlabel="distance of j from i, in edges", ylabel="mean ‖∂h_i/∂h⁰_j‖")
    panel.legend(fontsize=8)


if __name__ == "__main__":
    draw("diagnose", (6.0, 3.4), content)
