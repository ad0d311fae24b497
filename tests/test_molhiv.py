"""The benchmark with OGB's molecules: reading, both directions of bonds, one epoch; the real files where they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch
from benchmarks import molhiv

import rade

ATOMS = ["1,0", "2,1", "0,1", "1,1", "2,0"]  # a molecule of three atoms, one of two
FILES = {
    "raw/node-feat": ATOMS,
    "raw/edge-feat": ["0,1", "2,0", "1,1"],
    "raw/edge": ["0,1", "1,2", "0,1"],
    "raw/num-node-list": ["3", "2"],
    "raw/num-edge-list": ["2", "1"],
    "raw/graph-label": ["1", "0"],
    "split/scaffold/train": ["0", "1"],
    "split/scaffold/valid": ["0", "1"],
    "split/scaffold/test": ["1", "0"],
}
HERE = rade.data.data_root() / molhiv.FOLDER


@pytest.fixture
def molecules(tmp_path: Path) -> molhiv.Molecules:
    for name, rows in FILES.items():
        path = tmp_path / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return molhiv.Molecules.read(tmp_path)


def test_bonds_have_both_directions_and_their_columns(molecules):
    first, second = molecules.data(torch.tensor([0, 1]))
    assert first.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert first.edge_attr.tolist() == [[0, 1], [2, 0], [0, 1], [2, 0]]
    assert second.x.tolist() == [[1, 1], [2, 0]]
    assert [data.y.item() for data in (first, second)] == [1.0, 0.0]
    assert molecules.kinds == ([3, 2], [3, 2])


@pytest.mark.parametrize("method", molhiv.METHODS)
def test_a_run_is_a_line(molecules, method):
    row = molhiv.run(molecules, method, seed=0, size=2, epochs=2)
    assert (row["method"], row["molecules"], row["epochs"]) == (method, 2, 2)
    assert 0.0 <= row["test"] <= 1.0
    assert (row["p"] > 0.0) is (method != "none")
    found = molhiv.table([row, row | {"method": "none", "seed": 0, "test": 0.5}])
    assert "| plain | 50.0 |" in found or method == "none"


def test_the_network_knows_nothing_of_rade(molecules):
    """Evaluation of the wrapped network is its own."""
    (data,) = molecules.data(torch.tensor([0]))
    torch.manual_seed(0)
    net = molhiv.BondNet(*molecules.kinds).eval()
    given = data.x, data.edge_index, data.edge_attr, torch.zeros(3, dtype=torch.long)
    expected = net(*given)
    model = rade.RADE(net, readout=rade.Readout(task="binary", pool="mean")).eval()
    torch.testing.assert_close(model(*given), expected)


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(SystemExit, match="rade datasets import DIR ogbg-molhiv"):
        molhiv.Molecules.read(tmp_path / "nowhere")


@pytest.mark.skipif(not HERE.is_dir(), reason="ogbg-molhiv is not here")
def test_the_real_files():
    """A slice of 41,127 molecules: a training step, and atoms as OGB counts their categories."""
    found = molhiv.Molecules.read(HERE)
    assert len(found.active) == 41_127
    assert sum(map(len, found.split.values())) == 41_127
    assert (found.atoms.shape[1], found.bonds.shape[1]) == (9, 3)
    graphs = found.data(found.split["train"][:8])
    assert all(rade.Graph.from_edge_index(data.edge_index, data.num_nodes).self_loops == 0 for data in graphs)


def test_the_documented_table_is_that_of_the_stored_runs():
    root = Path(__file__).parents[1]
    rows = list(molhiv.lines(root / "results/studies/molhiv/molhiv.jsonl"))
    assert molhiv.table(rows) in (root / "docs/layers.md").read_text("utf-8")
