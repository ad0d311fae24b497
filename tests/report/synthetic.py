"""Stores whose truth is known: rows of a given mean, spread and effect, and a small table to put them in."""

import hashlib
import json
import random
from itertools import chain

from rade.experiment.store import Store, export
from rade.experiment.table import Experiment, Published, Row
from rade.report import build
from rade.train.record import RunRecord

METHODS = {"GCN": "none", "DropEdge": "drop-edge", "DropNode": "drop-node"}
METHODS |= {"RADE-OF": "rade-of", "RADE-OFS": "rade-ofs"}
PAPER = dict(zip(METHODS, ((80.1, 0.64), (80.28, 0.34), (80.8, 0.55), (81.08, 1.06), (80.82, 1.24))))


def line(name, method, **changes):
    return Row(**{"name": name, "method": method, "backbones": ("gcn",), **changes})


def table(*rows, **changes):
    values = {"name": "own", "title": "Own", "label": "", "protocol": "released", "seeds": 5, "backbones": ("gcn",)}
    return Experiment(**{**values, "datasets": ("cora",), "rows": rows, **changes})


PUBLISHED = {name: {"gcn": {"cora": Published(*numbers)}} for name, numbers in PAPER.items()}
ROWS = (line(name, method, published=PUBLISHED[name]) for name, method in METHODS.items())
MAIN = table(*ROWS, name="main", title="Node classification, GCN")


SETTINGS = {
    "dataset": "cora", "backbone": "gcn", "method": "none", "options": {}, "hidden": 512, "layers": 2,
    "pool": "none", "projection": True, "epochs": 500, "patience": 100, "optimizer": "adam", "lr": 0.001,
    "schedule": "constant", "batch_size": 0, "eval_batch_size": 0, "fanouts": [15, 10], "seed": 0,
    "threads": 1, "device": "cpu",
}  # fmt: skip


def row(score, run=0, folds=0, done=30, protocol="released", history=None, numerics=1, **chosen):
    """A row as a store holds it; `score` is a fraction, `done` the epochs that were run."""
    wanted = SETTINGS | chosen
    text = json.dumps([wanted, run, numerics, protocol], sort_keys=True)
    best = max(1, 2 * done // 3)
    curve = [round(score * (1 - 0.5 * 0.9**epoch), 5) for epoch in range(1, done)] + [score]
    moving = wanted["method"].startswith("rade")
    rates = [0.5 + 0.3 * epoch / done if moving else 0.0 for epoch in range(done)]
    return {
        "format": 1, "key": hashlib.sha256(text.encode()).hexdigest()[:32], "numerics": numerics, "settings": wanted,
        "protocol": protocol, "run": run, "seed": wanted["seed"] + run, "metric": "accuracy", "folds": folds,
        "val": score, "test": score, "best_epoch": best, "epochs": done,
        "history": history or {"val": curve, "train": curve, "p": rates, "q": [rate / 1000 for rate in rates]},
        "timing": {"seconds": 0.05 * done, "seconds_per_epoch": 0.05, "finished": "2026-01-01T00:00:00+00:00"},
        "versions": {"torch": "2.13.0"}, "commit": "0123456789ab", "dirty": False,
        "machine": {"cpu": "a processor"}, "threads": 1, "command": f"rade train --run {run}",
        "data": {"name": wanted["dataset"], "source": "a source", "licence": "free", "files": {"raw.x": "ab" * 32}},
    }  # fmt: skip


def cell(mean, noise, count, shift=0.0, own=0.003, **chosen):
    """Rows of one cell: a seed's common luck (the same for every method), plus the method's shift and its own noise."""
    found = []
    for run in range(count):
        luck = random.Random(f"{chosen.get('dataset', 'cora')}{run}").gauss(0, noise)
        mine = random.Random(f"{sorted(chosen.items())}{run}").gauss(0, own)
        found.append(row(round(mean + luck + shift + mine, 4), run=run, **chosen))
    return found


def store(count=20, **shifts):
    """Cora with every method of MAIN; shifts by method, with underscores for dashes."""
    cells = [cell(0.8, 0.01, count, shifts.get(name.replace("-", "_"), 0.0), method=name) for name in METHODS.values()]
    return list(chain(*cells))


def report(rows, *experiments):
    return build([RunRecord.model_validate(one) for one in rows], experiments or (MAIN,))


def save(rows, folder):
    """A store with these rows, in its text form."""
    file = Store(folder / "runs.sqlite")
    with file.writing():
        file.merge(RunRecord.model_validate(one) for one in rows)
    export(file, folder)
    return folder
