"""Which rule should move the rates: the runs of `rade reproduce rules-node rules-graph` as tables and a picture.

    python -m benchmarks.rate_rules --store results            # results/studies/rate-rules.md, and docs/figures
    python -m benchmarks.rate_rules --store results --check    # says whether the file is what the store gives

Runs, pairs and intervals are the report's: what `rade report` puts into the two tables is shown here.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rade import experiment
from rade.experiment.store import open_store
from rade.report import build
from rade.report.cells import CellResult
from rade.report.tables import Table
from rade.report.words import mean_std
from rade.statistics import Pair, differences, fold_ratio, mean_curve, paired

ROOT = Path(__file__).parents[1]
TABLES = ("rules-node", "rules-graph")
POINTS = 90  # of a drawn curve
LAST = 10  # epochs that tell what is left of a score when training goes on
CURVES = {"GradNorm": "blue", "NoiseRatio 0.1": "orange"}  # the rules that are drawn, from each start

HEAD = """# Rate rules, compared

Written by `benchmarks/rate_rules.py` from the runs in `results/` (`rade reproduce rules-node rules-graph`): RADE-OF
with a GCN under the released protocol, with independent views. Differences to plain training are paired, in points,
with 95 % intervals: the test score at the epoch of the best validation score, and the validation score as the mean of
the last ten epochs, long after it. NoiseRatio starts from 0.5 where nothing else is said; the two numbers of Constant
are p and ρ, so that `0.5, 0.0` are drops alone. [rates.md](../../docs/rates.md) says what follows from it.

![p over epochs from three starts, by rule and data set](../../docs/figures/rate-rules-light.svg)
"""
COLUMNS = ("rule", "runs", "test, best epoch", "validation, last ten epochs", "p at the end")

Places = dict[str, tuple[Table, list[CellResult]]]  # by data set: its table and the cells that were run


def read(store: Path) -> Places:
    """The cells of the two tables by data set; those with nothing but plain runs are left to the report."""
    places: Places = {}
    for table in build(open_store(store).records(), [experiment.load(name) for name in TABLES]).tables:
        for dataset in table.experiment.datasets:
            cells = [cell for cell in table.filled if cell.dataset == dataset]
            if any(cell.row.role != "plain" for cell in cells):
                places[dataset] = table, cells
    return places


def ends(cell: CellResult) -> str:
    """Where p ended, if it moved."""
    values = [run.history["p"][-1] for run in cell.runs]
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return "" if cell.row.method.endswith("-fixed") else low if low == high else f"{low}–{high}"


def late_gain(table: Table, cell: CellResult) -> str:
    """The mean validation score of the last epochs minus plain training's; empty where there is none."""
    against = table.against(cell)
    if against is None:
        return ""
    gaps = differences(late(cell), late(against.reference), cell.folds)
    return str(paired(gaps, fold_ratio(cell.folds))) if gaps else ""


def late(cell: CellResult) -> dict[Pair, float]:
    curves = {run.pair: run.history.get("val", [])[-LAST:] for run in cell.runs}
    return {pair: math.fsum(last) / LAST for pair, last in curves.items() if len(last) == LAST}


def page(places: Places) -> str:
    """The tables."""
    parts = [HEAD]
    for dataset, (table, cells) in places.items():
        for cell in cells:
            runs = len(cell.runs)
            if cell.row.role == "plain":
                parts.append(f"\n## {dataset}\n\nPlain: {mean_std(cell.spread)} in {runs} runs.\n\n")
                parts.append(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
                continue
            against = table.against(cell, "plain")
            test = str(against.verdict.result) if against else ""
            parts.append(f"| {cell.row.name} | {runs} | {test} | {late_gain(table, cell)} | {ends(cell)} |\n")
    return "".join(parts)


def drawn(cell: CellResult) -> Iterable[tuple[str, list[int], list[float]]]:
    """The rule's name, epochs and the mean of p over runs, as far as all of them came."""
    rule = next((name for name in CURVES if cell.row.name == name or cell.row.name.startswith(f"{name} from")), None)
    curve = mean_curve([run.history["p"] for run in cell.runs if "p" in run.history])
    if rule and curve:
        start, every = float(cell.group.flat["p"]), max(1, len(curve) // POINTS)
        yield rule, [0, *range(1, len(curve) + 1, every)], [start, *curve[::every]]


def draw(places: Places) -> None:
    """One panel per data set: the mean of p over runs, from each start."""
    sys.path.insert(0, str(ROOT / "docs" / "pictures"))
    from style import draw_into  # type: ignore[import-not-found]

    places = {name: place for name, place in places.items() if any(line for cell in place[1] for line in drawn(cell))}

    def content(figure: Any, colours: dict[str, str]) -> None:
        panels = figure.subplots(1, len(places), squeeze=False, sharey=True)[0]
        for panel, (dataset, (_, cells)) in zip(panels, places.items()):
            for rule, epochs, values in (line for cell in cells for line in drawn(cell)):
                panel.plot(epochs, values, color=colours[CURVES[rule]], label=rule)
            panel.set(title=dataset, xlabel="epoch", ylim=(0, 1))
            panel.grid()
        panels[0].set_ylabel("drop rate p, mean over runs")
        entries = dict(zip(*reversed(panels[0].get_legend_handles_labels())))
        panels[-1].legend(entries.values(), entries.keys(), fontsize=8)

    draw_into(ROOT / "docs" / "figures", "rate-rules", (3.2 * len(places) + 0.6, 3.0), content)


def main() -> None:
    """Write the page and its pictures, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=ROOT / "results")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    places, file = read(asked.store), ROOT / "results" / "studies" / "rate-rules.md"
    if asked.check:
        raise SystemExit(0 if file.read_text("utf-8") == page(places) else f"{file.name} is not what the store gives")
    file.write_text(page(places), "utf-8")
    draw(places)


if __name__ == "__main__":
    main()
