"""The scores of a stress test as a picture."""

from pathlib import Path

from rade.train.files import write_whole
from rade.train.stress import Stress


def draw_stress(study: Stress, path: Path) -> None:
    """A panel per condition: every method's mean with its 95 % interval, and the single graphs as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, len(study.conditions), sharey=True, squeeze=False)[0]
    for panel, condition in zip(panels, study.conditions):
        for number, method in enumerate(study.methods):
            scores = [100 * score for score in study.scores[method][condition]]
            panel.plot(scores, [number] * len(scores), ".", color=f"C{number}", alpha=0.35)
            band = study.interval(method, condition)
            mean = sum(scores) / len(scores)
            reach = 0.0 if band.low is None or band.high is None else (band.high - band.low) / 2
            panel.errorbar(mean, number, xerr=reach, fmt="o", color=f"C{number}", capsize=4)
            if number == 0:
                panel.axvline(mean, color="C0", linewidth=0.8, linestyle=":")
        panel.set_title(condition)
        panel.set_xlabel(f"test {study.metric} in %")
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(study.methods)), study.methods)
    panels[0].invert_yaxis()
    count = len(study.scores[study.methods[0]][study.conditions[0]])
    figure.suptitle(f"mean and 95 % interval over {count} graphs")
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))
