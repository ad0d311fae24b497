"""The picture of docs/noisy.md and its tables, from stored rows.

python benchmarks/draw_noisy.py results/noisy/rows.jsonl.gz docs/figures/noisy.svg > tables.md
"""

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

WAYS = ("plain", "known", "half", "double", "estimated-mean", "edges", "estimated", "pruned")
ADDED = {"clean": 0, "add10": 10, "add30": 30, "add100": 100, "add200": 200}
DRAWN = {"plain": "plain inference", "pruned": "least similar edges cut", "known": "mean taken off, rate known",
         "estimated": "rade.estimate_noise"}  # fmt: skip
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in content.splitlines()]


def grouped(rows: Iterable[Row]) -> dict[tuple[str, str, str], dict[str, list[Row]]]:
    """Rows by (data set, backbone, method), then by corruption."""
    found: dict[tuple[str, str, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["dataset"], row["backbone"], row["method"]][row["corruption"]].append(row)
    return found


def scores(rows: list[Row], way: str, what: str = "accuracy") -> list[float]:
    return [row["scores"][way][what] for row in rows]


def difference(rows: list[Row], way: str) -> str:
    """Paired, with its standard error over seeds."""
    paired = [a - b for a, b in zip(scores(rows, way), scores(rows, "plain"))]
    error = f" ± {stdev(paired) / len(paired) ** 0.5:.1f}" if len(paired) > 1 else ""
    return f"{fmean(paired):+.1f}{error}"


def table(name: tuple[str, str, str], by_corruption: dict[str, list[Row]]) -> str:
    """One line per corruption: plain accuracy and paired differences to it."""
    dataset, backbone, method = name
    lines = [f"\n{dataset}, {backbone}, trained with {method}:\n"]
    lines.append(f"| graph | n | {' | '.join(WAYS)} | share: true, found |")
    lines.append("|---" * (len(WAYS) + 3) + "|")
    for corruption, rows in by_corruption.items():
        cells = [f"{fmean(scores(rows, 'plain')):.1f}"] + [difference(rows, way) for way in WAYS[1:]]
        share = f"{rows[0]['share']:.2f}, {fmean(row['scores']['estimated']['share'] for row in rows):.2f}"
        lines.append(f"| {corruption} | {len(rows)} | {' | '.join(cells)} | {share} |")
    return "\n".join(lines)


def draw(found: dict[tuple[str, str, str], dict[str, list[Row]]], path: Path) -> None:
    """Accuracy against added edges, one panel per data set (GCN, trained plainly)."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "rade"  # the same file from the same rows
    import matplotlib.pyplot as plt

    shown = {name[0]: cells for name, cells in found.items() if name[1:] == ("gcn", "none")}
    figure, axes = plt.subplots(1, len(shown), figsize=(3.4 * len(shown), 3.2), squeeze=False)
    for axis, (dataset, cells) in zip(axes[0], shown.items()):
        names = [name for name in ADDED if name in cells]
        for way, label in DRAWN.items():
            values = [fmean(scores(cells[name], way)) for name in names]
            axis.plot([ADDED[name] for name in names], values, marker="o", markersize=3, label=label)
        axis.set_title(f"{dataset} ({len(cells[names[0]])} seeds)")
        axis.set_xlabel("spurious edges, % of real ones")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("test accuracy, %")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rows", type=Path)
    arguments.add_argument("picture", type=Path)
    asked = arguments.parse_args()
    found = grouped(read(asked.rows))
    for name, cells in found.items():
        print(table(name, cells))
    draw(found, asked.picture)


if __name__ == "__main__":
    main()
