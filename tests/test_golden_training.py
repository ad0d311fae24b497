"""Training gives the numbers it gave: curves of ten epochs and the names of stored runs, kept in `tests/golden`.

`python tests/test_golden_training.py` writes the curves anew, for a change that is meant to alter them.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rade.data import Dataset, GraphList, load
from rade.train import resolve, train_run
from rade.train.run import run_key

GOLDEN = Path(__file__).parent / "golden"
CURVES, KEYS = GOLDEN / "curves.json", GOLDEN / "keys.json"
METHODS = ("none", "drop-edge", "rade-of", "rade-ofs")
OTHERS = ("dropout", "drop-node", "drop-message", "virtual-node", "rade-of-fixed", "rade-of-noise", "rade-ofs-layered")
EPOCHS = 10
SHORT = 2  # epochs in single precision, before rounding has grown
TOLERANCE = {"float64": 3e-7, "float32": 3e-6}
CASES: dict[str, dict[str, Any]] = {  # the whole graph, attention, sampled neighborhoods, graphs, folds
    "csbm": {"backbone": "gcn"},
    "csbm-gat": {"backbone": "gat", "hidden": 16},
    "csbm-sampled": {"backbone": "sage", "batch_size": 64, "fanouts": (5, 5)},
    "far-pair": {"backbone": "gin", "hidden": 16, "lr": 0.01, "batch_size": 25},
    "mutag": {"backbone": "gcn"},
}
RUNS = [
    (case, method, kind)
    for case in CASES
    for method in METHODS + (OTHERS if case in ("csbm", "far-pair") else ())
    for kind in TOLERANCE
]


def mirror() -> Path | None:
    """The folder of raw data sets, where there is one."""
    here = Path(__file__).resolve()
    places = [Path(os.environ.get("RADE_DATA", "data")), *(here.parents[up] / "shared" / "data" for up in (2, 3))]
    return next((place for place in places if (place / "MUTAG" / "raw").is_dir()), None)


def mutag(folder: Path) -> Dataset:
    """MUTAG read from links to the raw files, so that nothing is written beside them."""
    found = mirror()
    if found is None:
        pytest.skip("MUTAG is not there")
    raw = folder / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    for file in (found / "MUTAG" / "raw").iterdir():
        (raw / file.name).symlink_to(file)
    return load("mutag", folder, download=False)


def data_of(case: str, folder: Path) -> Dataset:
    """The data of a case, in the default precision."""
    if case == "mutag":
        data = mutag(folder)
    elif case == "far-pair":
        data = load("far-pair", graphs=100, length=4, pendants=2)
    else:
        data = load("csbm", nodes=400)
    if isinstance(data.graphs, GraphList):
        tables = data.graphs.tables
        return replace(data, graphs=GraphList(replace(tables, x=tables.x.to(torch.get_default_dtype()))))
    graph = data.graphs[0].clone()
    graph.x = graph.x.to(torch.get_default_dtype())
    return replace(data, graphs=(graph,))


@contextmanager
def precision(name: str) -> Iterator[None]:
    """One thread, and numbers of this kind."""
    threads, before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(vars(torch)[name])
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(before)


def curves_of(case: str, method: str, kind: str) -> dict[str, list[float]]:
    """Losses, scores and rates, epoch by epoch."""
    given = dict(CASES[case])
    with tempfile.TemporaryDirectory() as folder, precision(kind):
        data = data_of(case, Path(folder))
        epochs = EPOCHS if kind == "float64" else SHORT
        settings = resolve(data.name, given.pop("backbone"), method, epochs=epochs, **given)
        result = train_run(data, settings, 1, Path(folder) / "run")
    scores = {name: [result[name]] for name in ("val", "test", "best_epoch")}
    return {**result["history"], **{f"chosen {name}": value for name, value in scores.items()}}


@pytest.mark.parametrize(("case", "method", "kind"), RUNS)
def test_curves_are_those_that_were_kept(case, method, kind):
    kept = json.loads(CURVES.read_text("utf-8"))[f"{case} {method} {kind}"]
    found = curves_of(case, method, kind)
    for name, values in kept.items():
        assert found[name] == pytest.approx(values, rel=TOLERANCE[kind], abs=1e-9), name


@pytest.mark.parametrize("number", range(20))
def test_stored_runs_keep_their_keys(number):
    """What the command of a stored run asks for has the key under which the run was stored."""
    kept = json.loads(KEYS.read_text("utf-8"))[number]
    settings = resolve(*kept["names"], **kept["asked"])
    assert run_key(settings, kept["run"], kept["data"]) == kept["key"]


if __name__ == "__main__":
    found = {" ".join(run): curves_of(*run) for run in RUNS}
    CURVES.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
