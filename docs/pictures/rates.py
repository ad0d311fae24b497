"""How p and ρ move in training: Cora, GCN, from p = ρ = 0.5, seeds 0 to 9 of the runs in results/."""

import csv
import gzip
import json
from collections import defaultdict

from matplotlib.figure import Figure
from style import HERE, Colours, draw

from rade.statistics import mean_curve

RESULTS = HERE.parents[1] / "results"
FIRST = 0.5  # where both rates start
RULES = {
    ("rade-of", ""): ("GradNorm (the paper's rule), RADE-OF", "blue", "-"),
    ("rade-ofs", ""): ("GradNorm, RADE-OFS", "blue", "--"),
    ("rade-of-noise", "0.1"): ("NoiseRatio, ν = 0.1, RADE-OF", "orange", "-"),
    ("rade-of-fixed", ""): ("Constant", "grey", ":"),
}
USUAL = {"layers": 2, "corrupt": "", "test_corrupt": "", "labels_per_class": 0, "train_items": 0, "train_share": 0.0}


def runs() -> dict[str, tuple[str, str]]:
    """The method and its ν by the key of a run."""
    found = {}
    with (RESULTS / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            settings = json.loads(row["settings"])
            method = row["method"], str(settings["options"].get("nu", ""))
            usual = all(settings.get(name, value) == value for name, value in USUAL.items())
            start = {settings["options"].get(name) for name in ("p", "rho")} == {FIRST}
            if (row["dataset"], row["backbone"]) == ("cora", "gcn") and usual and start and int(row["seed"]) < 10:
                found[row["key"]] = method
    return found


def curves() -> dict[tuple[str, str], list[tuple[list[float], list[float]]]]:
    """p and ρ after every epoch, of every run; the density that turns q into ρ is that of constant rates."""
    wanted, found = runs(), defaultdict(list)
    with gzip.open(RESULTS / "curves" / "cora.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            run = json.loads(line)
            if wanted.get(run["key"]) in RULES:
                found[wanted[run["key"]]].append((run["p"], run["q"]))
    density = found["rade-of-fixed", ""][0][1][0] / FIRST
    return {rule: [(p, [value / density for value in q]) for p, q in found[rule]] for rule in RULES}


def content(figure: Figure, colours: Colours) -> None:
    """Drop rates on the left, add rates on the right; single runs thin, their mean as far as all runs go."""
    panels = figure.subplots(1, 2, sharey=True)
    for rule, lines in curves().items():
        label, colour, dash = RULES[rule]
        for panel, values in zip(panels, zip(*lines)):
            for one in values:
                panel.plot(range(1, len(one) + 1), one, color=colours[colour], linewidth=0.5, alpha=0.4)
            mean = mean_curve(values)
            named = f"{label} ({len(values)} runs)"
            panel.plot(range(1, len(mean) + 1), mean, color=colours[colour], linestyle=dash, linewidth=2, label=named)
    for panel, title in zip(panels, ("drop rate p", "add rate ρ = q / density")):
        panel.set(title=title, xlabel="epoch", ylim=(0, None))
        panel.grid()
    panels[0].legend(fontsize=8)


if __name__ == "__main__":
    draw("rates", (9.5, 3.4), content)
