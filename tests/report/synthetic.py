"""Stores whose truth is known: rows of a given mean, spread and effect, and a small table to put them in."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from rade.experiment.store import Store, export
from rade.train.record import RunRecord

ROUND = 1e4


@dataclass(frozen=True)
class Published:
    mean: float
    std: float


@dataclass(frozen=True)
class Row:
    name: str
    method: str
    backbones: tuple[str, ...] = ("gcn",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)

    def settings_on(self, dataset):
        return self.settings

    def candidates(self):
        return [dict(zip(self.search, values)) for values in product(*self.search.values())]


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...] = ("cora",)
    label: str = ""
    protocol: str = "released"
    seeds: int = 5
    measure: str = "score"
    note: str = ""


def paper(mean, std, dataset="cora", backbone="gcn"):
    return {backbone: {dataset: Published(mean, std)}}


MAIN = Experiment(
    "main",
    "Node classification, GCN",
    (
        Row("GCN", "none", published=paper(80.1, 0.64)),
        Row("DropEdge", "drop-edge", published=paper(80.28, 0.34)),
        Row("DropNode", "drop-node", published=paper(80.8, 0.55)),
        Row("RADE-OF", "rade-of", published=paper(81.08, 1.06)),
        Row("RADE-OFS", "rade-ofs", published=paper(80.82, 1.24)),
    ),
)


def settings(dataset="cora", method="none", backbone="gcn", seed=0, **others):
    common = {
        "dataset": dataset, "backbone": backbone, "method": method, "options": {}, "hidden": 512, "layers": 2,
        "pool": "none", "projection": True, "epochs": 500, "patience": 100, "optimizer": "adam", "lr": 0.001,
        "schedule": "constant", "batch_size": 0, "eval_batch_size": 0, "fanouts": [15, 10], "seed": seed,
        "threads": 1, "device": "cpu",
    }  # fmt: skip
    return common | others


def row(score, run=0, folds=0, done=30, protocol="released", history=None, numerics=1, **chosen):
    """A row as a store holds it; `score` is a fraction, `done` the epochs that were run."""
    wanted = settings(**chosen)
    text = json.dumps([wanted, run, numerics, protocol], sort_keys=True)
    best = max(1, 2 * done // 3)
    return {
        "format": 1,
        "key": hashlib.sha256(text.encode()).hexdigest()[:32],
        "numerics": numerics,
        "settings": wanted,
        "protocol": protocol,
        "run": run,
        "seed": wanted["seed"] + run,
        "metric": "accuracy",
        "folds": folds,
        "val": score,
        "test": score,
        "best_epoch": best,
        "epochs": done,
        "history": history or curves(score, done, best, wanted["method"], run),
        "timing": {"seconds": 0.05 * done, "seconds_per_epoch": 0.05, "finished": "2026-01-01T00:00:00+00:00"},
        "versions": {"python": "3.11.7", "rade": "0.1.0", "torch": "2.13.0"},
        "commit": "0123456789ab",
        "dirty": False,
        "machine": {"cpu": "a processor", "cores": 2},
        "threads": 1,
        "command": f"rade reproduce main --datasets {wanted['dataset']}",
        "data": {"name": wanted["dataset"], "source": "a source", "licence": "free", "files": {"raw.x": "ab" * 32}},
    }


def curves(score, epochs, best, method, run):
    """Curves that peak at the best epoch; rates that move where the method is RADE."""
    dice = random.Random(f"{method}{run}")
    rising = [score * (1 - 0.5 * 0.9**epoch) - 0.0002 * abs(epoch - best) for epoch in range(1, epochs + 1)]
    val = [round(value + dice.gauss(0, 0.002), 5) for value in rising]
    val[best - 1] = score
    moving = method.startswith("rade")
    drift = [epoch / epochs for epoch in range(epochs)]
    return {
        "loss": [round(2 * 0.97**epoch, 5) for epoch in range(epochs)],
        "val": val,
        "val_loss": [round(1.5 * 0.98**epoch, 5) for epoch in range(epochs)],
        "train": [round(min(1.0, value + 0.15), 5) for value in val],
        "p": [round(0.5 + 0.3 * part + dice.gauss(0, 0.004), 5) if moving else 0.0 for part in drift],
        "q": [round(0.0007 * (1 - 0.4 * part), 7) if moving else 0.0 for part in drift],
    }


def cell(mean, noise, count, shift=0.0, own=0.003, **chosen):
    """Rows of one cell: a seed's common luck (the same for every method), plus the method's shift and its own noise."""
    found = []
    for run in range(count):
        luck = random.Random(f"{chosen.get('dataset', 'cora')}{run}").gauss(0, noise)
        mine = random.Random(f"{sorted(chosen.items())}{run}").gauss(0, own)
        found.append(row(round((mean + luck + shift + mine) * ROUND) / ROUND, run=run, **chosen))
    return found


def store(count=20, **shifts):
    """Cora with every method of MAIN; shifts by method, with underscores for dashes."""
    rows = []
    for method in ("none", "drop-edge", "drop-node", "rade-of", "rade-ofs"):
        rows += cell(0.80, 0.01, count, shifts.get(method.replace("-", "_"), 0.0), method=method)
    return rows


def save(rows, folder):
    """A store with these rows, in its text form."""
    file = Store(folder / "runs.sqlite")
    with file.writing():
        file.merge(RunRecord.of(one) for one in rows)
    export(file, folder)
    return folder
