"""What smaller rates, or drops alone, would lose where the default gained: one JSON line per run.

    python -m benchmarks.smaller_rates --out results/studies/default-rates/gained.jsonl
    python -m benchmarks.smaller_rates --table results/studies/default-rates/gained.jsonl

The other half of `default_rates.py`. The data sets are those on which `RADE(model)`, p = ρ = 0.2, is better than plain
training in the stored runs, and CiteSeer, where it is not; GCN, the released protocol, the seeds of the stored runs.
Only the new rates are trained; plain training and the default are read from `results/runs.csv` by the keys of runs.

Lines that are in the file already are not computed again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.study import add, asked

from rade.data import Dataset, load
from rade.statistics import differences, paired, spread
from rade.train.model import Trained
from rade.train.record import run_key
from rade.train.run import train
from rade.train.settings import Settings, resolve
from rade.train.tasks import problem_of

RUNS = Path(__file__).parents[1] / "results" / "runs.csv"
# As many runs as the default and plain training have in the store.
DATASETS = {"cora": 10, "squirrel-filtered": 10, "citeseer": 10, "cs": 5, "computer": 10}
STORED = {"plain": None, "p 0.2 rho 0.2": (0.2, 0.2)}
TRAINED = {"p 0.1 rho 0.1": (0.1, 0.1), "p 0.2 rho 0": (0.2, 0.0)}
NAMES = ("dataset", "rates", "run")


def settings_of(dataset: str, rates: tuple[float, float] | None) -> Settings:
    """The released protocol for a GCN: plain training, or constant rates."""
    if rates is None:
        return resolve(dataset, "gcn", "none")
    return resolve(dataset, "gcn", "rade-of-fixed", p=rates[0], rho=rates[1])


def trained(dataset: Dataset, settings: Settings, run: int) -> dict[str, Any]:
    """Scores of one run, as fractions."""
    learner = Trained.fresh(dataset, settings, settings.seed + run).learner
    record = train(problem_of(dataset, settings), learner, settings, run)
    return {name: getattr(record, name) for name in ("seed", "test", "val", "best_epoch", "epochs", "key")}


def stored(dataset: Dataset, rates: tuple[float, float] | None) -> dict[tuple[int, int], float]:
    """Test scores of the runs in the store, by what two runs must share to be compared."""
    with RUNS.open(encoding="utf-8", newline="") as file:
        scores = {row["key"]: float(row["test"]) for row in csv.DictReader(file)}
    settings = settings_of(dataset.name, rates)
    origin = problem_of(dataset, settings).origin
    keys = {run: run_key(settings, run, origin) for run in range(DATASETS[dataset.name])}
    return {(0, run): scores[key] for run, key in keys.items() if key in scores}


def table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Paired differences to plain training and of the new rates to the default, in points, with 95 % intervals."""
    known: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    for row in rows:
        known.setdefault((row["dataset"], row["rates"]), {})[0, row["run"]] = row["test"]
    others = [*list(STORED)[1:], *TRAINED]
    heads = ["data set", "runs", "plain", *others, *(f"{name}, to the default" for name in TRAINED)]
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for name in dict.fromkeys(dataset for dataset, _ in known):
        dataset = load(name)
        scores = {rates: stored(dataset, value) for rates, value in STORED.items()}
        scores |= {rates: known.get((name, rates), {}) for rates in TRAINED}
        pairs = [(rates, "plain") for rates in others] + [(rates, "p 0.2 rho 0.2") for rates in TRAINED]
        gaps = [differences(scores[one], scores[other]) for one, other in pairs]
        counts = sorted({len(gap) for gap in gaps})
        cells = [str(paired(gap)) if gap else "" for gap in gaps]
        mean = 100 * spread(list(scores["plain"].values())).mean
        yield f"| {name} | {' or '.join(map(str, counts))} | {mean:.2f} | {' | '.join(cells)} |"


def main() -> None:
    options, done = asked(__doc__, "gained.jsonl", NAMES, table, datasets=",".join(DATASETS), runs=10)
    for name in options.datasets.split(","):
        dataset = load(name)
        for run, rates in product(range(min(options.runs, DATASETS[name])), TRAINED):
            if (name, rates, run) not in done:
                found = trained(dataset, settings_of(name, TRAINED[rates]), run)
                add(options.out, {**dict(zip(NAMES, (name, rates, run))), **found})


if __name__ == "__main__":
    main()
