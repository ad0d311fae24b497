"""Which rule should move the rates: the runs of `rade reproduce rules-node rules-graph` as a page and a picture.

    python benchmarks/rate_rules.py --store results            # docs/rate-rules.md and its two pictures
    python benchmarks/rate_rules.py --store results --check    # says whether the page is what the store gives

All differences are to the plain runs of the same seeds or folds, with 95 % intervals (folds: corrected for the training
data that they share). Nothing is left out: what was run is in the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from rade.statistics import paired

ROOT = Path(__file__).parents[1]
RULES = {"rade-of": "GradNorm", "rade-of-noise": "NoiseRatio", "rade-of-fixed": "Constant"}
DATASETS = ("cora", "citeseer", "computer", "mutag", "proteins", "imdb-b")
STARTS = (0.2, 0.5, 0.8)
FOLDS = 1 / 9  # test over training items of ten folds
LAST = 10
Row = dict[str, Any]
Group = dict[int, Row]  # by run

HEAD = """# Rate rules, compared

Written by `benchmarks/rate_rules.py` from the runs in `results/` (`rade reproduce rules-node rules-graph`): RADE-OF
with a GCN under the released protocol, with independent views. Differences to plain training are paired, in points,
with 95 % intervals: the test score at the epoch of the best validation score, and the validation score as the mean of
the last ten epochs, long after it. What it means for you stands in [rates](rates.md).

:::{image} figures/rate-rules-light.svg
:class: only-light
:alt: p over epochs from three starts, by rule and data set
:::
:::{image} figures/rate-rules-dark.svg
:class: only-dark
:alt: p over epochs from three starts, by rule and data set
:::
"""


def read(store: Path) -> dict[str, dict[tuple[Any, ...], Group]]:
    """The runs of the two tables, by data set, then by rule and first rates, then by run."""
    groups: dict[str, dict[tuple[Any, ...], Group]] = {name: defaultdict(dict) for name in DATASETS}
    for file in sorted(store.glob("*.json")):
        row = json.loads(file.read_bytes())
        settings, options = row["settings"], row["settings"]["options"]
        plain = settings["method"] == "none"
        of_table = plain or (settings["method"] in RULES and options.get("share_view") is False)
        if settings["dataset"] not in groups or settings["backbone"] != "gcn" or row["protocol"] != "released":
            continue
        if of_table and not settings.get("corrupt") and row["run"] < 10:
            rates = () if plain else (options["p"], options["rho"], options.get("nu"))
            groups[settings["dataset"]][(settings["method"], *rates)][row["run"]] = row
    return {name: dict(found) for name, found in groups.items() if len(found) > 1}


def called(key: tuple[Any, ...]) -> str:
    """A rule and where it starts."""
    method, p, rho, nu = key
    if method == "rade-of-fixed":
        return f"Constant ({p}, {rho})" + (", drops alone" if rho == 0 else "")
    return RULES[method] + ("" if nu is None else f", ν = {nu}") + f", from {p}"


def difference(mine: Group, plain: Group, score: Callable[[Row], float]) -> str:
    """Mean and interval over the runs that both have."""
    both = sorted(set(mine) & set(plain))
    ratio = FOLDS if next(iter(plain.values()))["folds"] else 0.0
    found = paired([100 * (score(mine[run]) - score(plain[run])) for run in both], ratio)
    interval = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:+.2f}{interval}".replace("-", "−")


def last(row: Row) -> float:
    """The validation score at the end."""
    return mean(row["history"]["val"][-LAST:])


def ends(group: Group) -> str:
    """Where p ended."""
    values = [row["history"]["p"][-1] for row in group.values()]
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}–{high}"


def page(groups: Mapping[str, Mapping[tuple[Any, ...], Group]]) -> str:
    """The tables."""
    parts = [HEAD]
    for dataset, found in groups.items():
        plain = found.get(("none",), {})
        if not plain:
            continue
        scores = [100 * row["test"] for row in plain.values()]
        parts.append(f"\n## {dataset}\n\nPlain: {mean(scores):.2f} in {len(scores)} runs.\n\n")
        parts.append(
            "| rule | runs | test, best epoch | validation, last ten epochs | p at the end |\n|---|---|---|---|---|\n"
        )
        for key in sorted((key for key in found if key != ("none",)), key=str):
            test, end = (difference(found[key], plain, score) for score in (lambda row: float(row["test"]), last))
            p = "" if key[0] == "rade-of-fixed" else ends(found[key])
            parts.append(f"| {called(key)} | {len(found[key])} | {test} | {end} | {p} |\n")
    return "".join(parts)


def draw(groups: Mapping[str, Mapping[tuple[Any, ...], Group]]) -> None:
    """One panel per data set: the mean of p over runs, from each start."""
    sys.path.insert(0, str(ROOT / "docs" / "pictures"))
    from style import draw_into

    def content(figure: Any, colours: dict[str, str]) -> None:
        panels = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
        for panel, (dataset, found) in zip(panels, groups.items()):
            for (method, *rates), group in found.items():
                curve = {"rade-of": "blue", "rade-of-noise": "orange"}.get(method)
                if curve is None or rates[0] not in STARTS or rates[2] not in (None, 0.1):
                    continue
                shortest = min(len(row["history"]["p"]) for row in group.values())
                values = [mean(row["history"]["p"][epoch] for row in group.values()) for epoch in range(shortest)]
                label = RULES[method] + (", ν = 0.1" if method == "rade-of-noise" else "")
                panel.plot([rates[0], *values], color=colours[curve], label=label)
            panel.set(title=dataset, xlabel="epoch", ylim=(0, 1))
            panel.grid()
        panels[0].set_ylabel("drop rate p, mean over runs")
        entries = dict(zip(*reversed(panels[0].get_legend_handles_labels())))
        panels[-1].legend(entries.values(), entries.keys(), fontsize=8)

    draw_into(ROOT / "docs" / "figures", "rate-rules", (3.2 * len(groups) + 0.6, 3.0), content)


def main() -> None:
    """Write the page and its pictures, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=ROOT / "results")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    groups, file = read(asked.store), ROOT / "docs" / "rate-rules.md"
    if asked.check:
        raise SystemExit(0 if file.read_text("utf-8") == page(groups) else f"{file.name} is not what the store gives")
    file.write_text(page(groups), "utf-8")
    draw(groups)


if __name__ == "__main__":
    main()
