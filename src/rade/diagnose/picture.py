"""A diagnosis as a picture: sensitivity by distance, and flips by noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rade.diagnose.diagnosis import Diagnosis
from rade.train.files import write_whole

LABELS = {"clean": "clean (and RADE-OF)", "rade-ofs": "RADE-OFS"}
STYLES = {"clean": {"color": "C0", "marker": "o"}, "rade-ofs": {"color": "C3", "marker": "s"}}
DASHES = {"drop": "-", "add": "--", "both": ":"}
WORDS = {"drop": "edges lost", "add": "spurious edges", "both": "both"}


def draw(found: Diagnosis, path: Path) -> None:
    """Two panels, as PNG, SVG or PDF by the file's name."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _sensitivity(left, found)
    _flips(right, found)
    figure.suptitle(f"{found.dataset}: {found.model}; p = {found.p:.3g}, q = {found.q:.3g}", fontsize=10)
    kind = path.suffix.lstrip(".").lower() or "png"
    write_whole(path, lambda file: figure.savefig(file, format=kind, dpi=120))


def _sensitivity(panel: Any, found: Diagnosis) -> None:
    for name, label in LABELS.items():
        steps = [step for step in found.operators[name].steps if step.distance >= 0 and step.sensitivity > 0]
        distances, values = [step.distance for step in steps], [step.sensitivity for step in steps]
        panel.plot(distances, values, label=label, **STYLES[name])
    panel.axvline(found.layers + 0.5, color="0.6", linestyle=":", label=f"{found.layers} layers end here")
    panel.set_yscale("log")
    panel.set_xlabel("distance of j from i, in edges")
    panel.set_ylabel("mean ‖∂h_i/∂h⁰_j‖")
    panel.set_title("sensitivity (nothing is drawn where it is 0)", fontsize=10)
    panel.legend()


def _flips(panel: Any, found: Diagnosis) -> None:
    for name, label in LABELS.items():
        for kind, shares in found.operators[name].flips.items():
            levels = [100 * float(level) for level in shares]
            values = [100 * share for share in shares.values()]
            text = f"{label}, {WORDS[kind]}"
            panel.plot(levels, values, linestyle=DASHES[kind], label=text, **STYLES[name], markersize=4)
    panel.set_xlabel("noise, % of the edges")
    panel.set_ylabel("predictions that change, %")
    panel.set_ylim(bottom=0)
    panel.set_title("flips under edge noise", fontsize=10)
    panel.legend(fontsize=8)
