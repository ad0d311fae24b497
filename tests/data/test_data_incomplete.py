"""Flickr and ogbn-arxiv: what a mirror lacks is reported, and the readers work on made-up files of the real size."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from data_facts import WITHHELD
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data
from rade.data.files.mirror import import_mirror


@pytest.mark.parametrize("name", WITHHELD)
def test_the_import_reports_the_missing_file_and_brings_the_others(name: str, gaps: Path, tmp_path: Path):
    results = import_mirror(gaps, tmp_path, [name])
    assert [r.path for r in results if r.state == "missing"] == [WITHHELD[name]]
    assert all((tmp_path / r.path).is_file() for r in results if r.state == "imported")
    assert {r.state for r in results} == {"imported", "missing"}


@pytest.mark.parametrize("name", WITHHELD)
def test_loading_says_which_file_is_missing_and_what_to_do(name: str, root: Path):
    with pytest.raises(rade.data.DataError, match=rf"needs {WITHHELD[name]}.*rade datasets import DIR"):
        rade.data.load(name, root, download=False)


def flickr_root(root: Path, place: Path, features: np.ndarray) -> Path:
    shutil.copytree(root / "Flickr", place / "Flickr", ignore=shutil.ignore_patterns("rade"))
    np.save(place / "Flickr" / "raw" / "feats.npy", features)
    return place


def test_flickr_with_its_real_graph_labels_and_split(root: Path, tmp_path: Path):
    """Real size; made-up features, 40 % of them set."""
    counts = np.random.default_rng(0).integers(0, 5, (89250, 500), dtype=np.int8)
    features = np.maximum(counts - 2, 0).astype(np.float32)
    dataset = rade.data.load("flickr", flickr_root(root, tmp_path, features), download=False)
    data, split = dataset.graphs[0], dataset.split(run=1)
    assert (data.num_nodes, data.edge_index.size(1), dataset.features, dataset.classes) == (89250, 899756, 500, 7)
    assert dataset.metric == "micro-f1"
    assert torch.bincount(data.y).numel() == 7
    assert [part.numel() for part in vars(split).values()] == [44625, 22312, 22313]
    assert not contains_self_loops(data.edge_index)
    assert is_undirected(data.edge_index, num_nodes=89250)
    assert data.x.layout is torch.strided
    row = torch.from_numpy(features[17])
    assert torch.allclose(data.x[17], row / row.sum())
    assert "Flickr/raw/feats.npy" in dataset.provenance.files


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (np.zeros((10, 500), dtype=np.float32), r"should have shape \(89250, 500\), got \(10, 500\)"),
        (np.array([{"not": "numbers"}], dtype=object), "is not a plain array"),
    ],
    ids=["shape", "pickle"],
)
def test_flickr_features_must_be_a_plain_array_of_the_right_shape(
    features: np.ndarray, sentence: str, root: Path, tmp_path: Path
):
    with pytest.raises(rade.data.DataError, match=sentence):
        rade.data.load("flickr", flickr_root(root, tmp_path, features), download=False)


def digits(values: np.ndarray) -> bytes:
    """A csv table of one-digit numbers, fast."""
    text = np.full((values.shape[0], 2 * values.shape[1]), ord(","), dtype=np.uint8)
    text[:, ::2] = values + ord("0")
    text[:, -1] = ord("\n")
    return text.tobytes()


def test_ogbn_arxiv_with_its_real_graph_labels_and_split(root: Path, tmp_path: Path):
    """Real size; made-up features, so the checksum of that file cannot match."""
    shutil.copytree(root / "ogbn_arxiv", tmp_path / "ogbn_arxiv", ignore=shutil.ignore_patterns("rade"))
    features = np.random.default_rng(0).integers(0, 10, (169343, 128), dtype=np.uint8)
    with gzip.open(tmp_path / WITHHELD["ogbn-arxiv"], "wb", compresslevel=1) as stream:
        stream.write(digits(features))
    with pytest.raises(rade.data.DataError, match=r"node-feat\.csv\.gz .* is truncated: expected 76357181 bytes"):
        rade.data.load("ogbn-arxiv", tmp_path, download=False)
    dataset = rade.data.load("ogbn-arxiv", tmp_path, download=False, verify=False)
    data, split = dataset.graphs[0], dataset.split(run=0)
    assert (data.num_nodes, data.edge_index.size(1) // 2) == (169343, 1157799)
    assert torch.equal(data.x[1000:1003], torch.from_numpy(features[1000:1003]).float())
    assert (dataset.classes, int(data.y.max()) + 1, data.y[:3].tolist()) == (40, 40, [4, 5, 28])
    assert [part.numel() for part in vars(split).values()] == [90941, 29799, 48603]
    # What was read without verification is not handed out as verified, cache or no cache.
    with pytest.raises(rade.data.DataError, match="is truncated"):
        rade.data.load("ogbn-arxiv", tmp_path, download=False)


def test_ogb_tables_must_have_as_many_lines_as_stated(root: Path, tmp_path: Path):
    shutil.copytree(root / "ogbg_molhiv", tmp_path / "ogbg_molhiv", ignore=shutil.ignore_patterns("rade"))
    path = tmp_path / "ogbg_molhiv" / "raw" / "graph-label.csv.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-2]))
    with pytest.raises(rade.data.DataError, match="should have 41127 lines, got 41126"):
        rade.data.load("ogbg-molhiv", tmp_path, download=False, verify=False)
    path.write_bytes(b"not gzip")
    with pytest.raises(rade.data.DataError, match="not a readable gzip file"):
        rade.data.load("ogbg-molhiv", tmp_path, download=False, verify=False)
