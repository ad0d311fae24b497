"""Condense the folders that `rade train` left into one JSON file and a Markdown table.

python benchmarks/collect_results.py runs/cora-gcn runs/mutag-gcn --out docs/earlier/example.json
"""

import argparse
import json
from pathlib import Path

from rade.train.summary import paired, summarise

KEPT = ("run", "seed", "best_epoch", "epochs", "threads", "commit", "versions")


def results(folder: Path) -> dict[str, list[dict]]:
    """The result files below a folder, by method, in the order of runs; `none` first, as the others' baseline."""
    found: dict[str, list[dict]] = {}
    for path in sorted(folder.glob("*/run-*/result.json")):
        result = json.loads(path.read_text("utf-8"))
        found.setdefault(result["settings"]["method"], []).append(result)
    methods = sorted(found, key=lambda method: (method != "none", method))
    return {method: sorted(found[method], key=lambda result: result["run"]) for method in methods}


def condensed(folder: Path) -> tuple[list[dict], list[str]]:
    """One row per method for the file, one line per method for the table."""
    rows, lines, first = [], [], None
    for runs in results(folder).values():
        summary, settings = summarise(runs), runs[0]["settings"]
        first = first or runs
        complete = [run["run"] for run in runs] == [run["run"] for run in first]
        gap = paired(summary, summarise(first)) if runs is not first and complete else None
        rows.append(
            {"folder": folder.name, "settings": settings, "metric": summary.metric, "selection": summary.selection}
            | {"epoch": summary.epoch, "mean": summary.mean, "std": summary.std}
            | {
                "runs": [
                    {"score": score, "last_p": run["history"]["p"][-1], "last_q": run["history"]["q"][-1]}
                    | {name: run[name] for name in KEPT}
                    for score, run in zip(summary.scores, runs)
                ]
            }
        )
        name = f"{folder.name}, {settings['backbone']} {summary.method}"
        lines.append(f"| {name} | {summary} | {gap or ''} | {len(runs)} |")
    return rows, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders that rade train was given as --out")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    parts = [condensed(folder) for folder in arguments.folders]
    arguments.out.write_text(json.dumps([row for rows, _ in parts for row in rows], indent=1) + "\n", "utf-8")
    print("| | score | difference to the first, 95 % | runs |\n|---|---|---|---|")
    print("\n".join(line for _, lines in parts for line in lines))


if __name__ == "__main__":
    main()
