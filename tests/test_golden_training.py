"""Training gives the numbers it gave: curves of ten epochs and the names of stored runs, kept in `tests/golden`.

`python tests/test_golden_training.py` writes the curves anew, for a change that is meant to alter them.
"""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GIN, global_mean_pool

import rade
from rade.data import Dataset, GraphList, import_mirror, load
from rade.train import methods, resolve, train_run
from rade.train.record import run_key
from zoo import normal, precision, random_edges

GOLDEN = Path(__file__).parent / "golden"
CURVES, KEYS, COMPARISONS = (GOLDEN / f"{name}.json" for name in ("curves", "keys", "compare"))
METHODS = ("none", "drop-edge", "rade-of", "rade-ofs")
OTHERS = ("dropout", "drop-node", "drop-message", "virtual-node", "rade-of-fixed", "rade-of-noise", "rade-ofs-layered")
EPOCHS = 10
SHORT = 2  # epochs in single precision, before rounding has grown
TOLERANCE = {"float64": 3e-7, "float32": 3e-6}
INTERPOLATED = 3e-6  # its moments are exact to 1e-5; those kept were interpolated between other points
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
    """MUTAG read from a copy of the raw files, so that nothing is written beside them."""
    found = mirror()
    if found is None:
        pytest.skip("MUTAG is not there")
    import_mirror(found, folder, ["mutag"])
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


def finely(net: nn.Module, *args: Any, correction: rade.Correction = rade.Correction(), **options: Any) -> rade.RADE:  # noqa: B008
    """With attention's moments as exact as they were when curves were kept."""
    return rade.RADE(net, *args, correction=replace(correction, tolerance=1e-5), **options)


def curves_of(case: str, method: str, kind: str) -> dict[str, list[float]]:
    """Losses, scores and rates, epoch by epoch."""
    given = dict(CASES[case])
    with tempfile.TemporaryDirectory() as folder, precision(kind):
        data = data_of(case, Path(folder))
        epochs = EPOCHS if kind == "float64" else SHORT
        settings = resolve(data.name, given.pop("backbone"), method, epochs=epochs, **given)
        with patch.object(methods, "RADE", finely):
            result = train_run(data, settings, 1, Path(folder) / "run")
    scores = {name: [getattr(result, name)] for name in ("val", "test", "best_epoch")}
    return {**result.history, **{f"chosen {name}": value for name, value in scores.items()}}


@pytest.mark.parametrize(("case", "method", "kind"), RUNS)
def test_curves_are_those_that_were_kept(case, method, kind):
    kept = json.loads(CURVES.read_text("utf-8"))[f"{case} {method} {kind}"]
    found, tolerance = curves_of(case, method, kind), INTERPOLATED if "gat" in case else TOLERANCE[kind]
    for name, values in kept.items():
        assert found[name] == pytest.approx(values, rel=tolerance, abs=1e-9), name


@pytest.mark.parametrize("number", range(20))
def test_stored_runs_keep_their_keys(number):
    """What the command of a stored run asks for has the key under which the run was stored."""
    kept = json.loads(KEYS.read_text("utf-8"))[number]
    settings = resolve(*kept["names"], **kept["asked"])
    assert run_key(settings, kept["run"], kept["data"]) == kept["key"]


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gnn, self.head = GIN(6, 8, 2), nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.head(global_mean_pool(self.gnn(x, edge_index), batch))


def one_graph() -> Data:
    y = torch.arange(60) % 3
    part = torch.randperm(60, generator=torch.Generator().manual_seed(0)) % 3
    masks = {f"{name}_mask": part == k for k, name in enumerate(("train", "val", "test"))}
    x = nn.functional.one_hot(y, 6).float() + 0.5 * normal(60, 6)
    return Data(x=x, edge_index=random_edges(60, 100), y=y, **masks)


def many_graphs() -> list[Data]:
    sizes = {k: 6 + k % 3 for k in range(41)}
    return [
        Data(x=normal(n, 6, seed=k) + k % 2, edge_index=random_edges(n, 10, seed=k), y=torch.tensor([k % 2]))
        for k, n in sizes.items()
    ]


COMPARED: list[tuple[Any, Any, rade.Training]] = [
    (lambda: GCN(6, 8, 2, 3, dropout=0.5), one_graph, rade.Training(epochs=15)),
    (Pooled, many_graphs, rade.Training(epochs=6, batch_size=8, pool="mean")),
    (lambda: GCN(64, 8, 2, 4), lambda: load("csbm", nodes=300), rade.Training(epochs=10)),
]


@pytest.mark.parametrize("case", range(3))
@pytest.mark.filterwarnings("ignore:only .* of the rows are labelled")
def test_comparisons_of_own_models_are_those_that_were_kept(case):
    make_net, data, training = COMPARED[case]
    methods = (*METHODS, "rade-of-noise")
    found = rade.compare(make_net, data(), methods, seeds=2, training=training, workers=1)
    kept = json.loads(COMPARISONS.read_text("utf-8"))[10 * case : 10 * case + 10]
    for run, (method, seed, *numbers) in zip(found.runs, kept, strict=True):
        assert (run.method, run.seed) == (method, seed)
        scores = [run.val, run.test, run.best_epoch, run.epochs, run.p, run.q]
        assert scores == pytest.approx(numbers, rel=1e-4), (method, seed)


if __name__ == "__main__":
    found = {" ".join(run): curves_of(*run) for run in RUNS}
    CURVES.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
