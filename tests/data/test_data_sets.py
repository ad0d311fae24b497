"""Data sets are what PyG's own classes say; `load` checks their sizes. Names, the data folder, `rade datasets`."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch
from torch_geometric.datasets import Amazon, HeterophilousGraphDataset, Planetoid, TUDataset
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data
from rade.data.catalogue import catalogue
from rade.data.files import RawFile, _address, raw_files
from rade.data.tensors import clean_edges, one_graph, row_normalised

COMPLETE = [name for name, entry in catalogue().items() if not entry.embedded and name not in ("flickr", "ogbn-arxiv")]


@pytest.fixture
def load(root):
    return lambda name, place=root: rade.data.load(name, place, download=False)


@pytest.mark.parametrize("name", COMPLETE)
def test_edges_are_simple_sorted_and_counted_and_parts_do_not_meet(name, load):
    dataset, entry = load(name), rade.data.resolve(name)
    data = dataset.graphs[0] if dataset.level == "node" else dataset.graphs.batch(torch.arange(len(dataset.graphs)))
    nodes = torch.tensor([data.num_nodes]) if dataset.level == "node" else data.ptr.diff()
    assert dataset.density == pytest.approx(2 * entry.edges / float((nodes * (nodes - 1)).double().sum()), rel=1e-6)
    assert not contains_self_loops(data.edge_index)
    assert is_undirected(data.edge_index, num_nodes=data.num_nodes)
    keys = data.edge_index[0] * data.num_nodes + data.edge_index[1]
    assert bool((keys[1:] > keys[:-1]).all())
    split = dataset.split(run=0)
    assert torch.cat([split.train, split.test]).unique().numel() == split.train.numel() + split.test.numel()


def test_nodes_agree_with_pygs_own_classes(load, root):
    """One set of each format: features, labels, edges and the public splits."""
    cora, theirs = load("cora"), Planetoid(str(root), "Cora")[0]
    assert torch.equal(cora.graphs[0].x.to_dense(), theirs.x)
    assert torch.equal(cora.graphs[0].y, theirs.y)
    assert torch.equal(cora.graphs[0].edge_index, theirs.edge_index.flip(0))  # theirs are sorted by target
    for part, index in vars(cora.split(run=3)).items():
        assert torch.equal(index, theirs[f"{part}_mask"].nonzero().squeeze(1))
    data, theirs = load("computer").graphs[0], Amazon(str(root), "Computers", transform=NormalizeFeatures())[0]
    assert torch.equal(data.edge_index, theirs.edge_index)
    assert torch.equal(data.y, theirs.y)
    assert torch.allclose(data.x, theirs.x, atol=1e-7)
    tolokers, theirs = load("tolokers"), HeterophilousGraphDataset(str(root), "Tolokers")[0]
    assert torch.equal(tolokers.graphs[0].x.to_dense(), theirs.x)
    assert torch.equal(tolokers.graphs[0].edge_index, theirs.edge_index)
    assert torch.equal(tolokers.graphs[0].y[:, 0].long(), theirs.y)
    for part, index in vars(tolokers.split(run=13)).items():
        assert torch.equal(index, theirs[f"{part}_mask"][:, 3].nonzero().squeeze(1))


@pytest.mark.parametrize("name", ["mutag", "imdb-b"])
def test_tu_agrees_with_pygs_own_class_and_has_stratified_folds(name, load, root):
    dataset, theirs = load(name), TUDataset(str(root), rade.data.resolve(name).folder)
    for index in range(0, len(theirs), 37):
        mine, other = dataset.graphs[index], theirs[index]
        assert torch.equal(mine.edge_index, other.edge_index)
        assert torch.equal(mine.y, other.y)
        assert other.x is None or torch.equal(mine.x, other.x)
    whole, folds = dataset.graphs.batch(torch.arange(len(theirs))), [dataset.split(k, seed=7) for k in range(10)]
    assert torch.equal(torch.cat([fold.test for fold in folds]).sort().values, torch.arange(len(theirs)))
    share = torch.bincount(whole.y) / 10
    for fold in folds:
        assert fold.val is fold.test
        assert bool(((torch.bincount(whole.y[fold.test]) - share).abs() < 1).all())
    if theirs[0].x is None:  # one-hot over the distinct degrees
        degree = torch.bincount(whole.edge_index[0], minlength=whole.num_nodes)
        assert torch.equal(degree.unique()[whole.x.argmax(dim=1)], degree)


def test_random_splits_are_new_in_each_run(load):
    dataset = load("cs")
    first, second = dataset.split(0, seed=5), dataset.split(1, seed=5)
    assert not torch.equal(first.train, second.train)
    assert torch.equal(second.train, dataset.split(0, seed=6).train)
    assert torch.equal(torch.cat(list(vars(first).values())).sort().values, torch.arange(18333))


def test_molecules_have_categorical_atoms_and_pygs_collation(load):
    dataset = load("ogbg-molhiv")
    first, index = dataset.graphs[0], torch.tensor([5, 0, 187, 5])
    assert first.x[0].tolist() == [5, 0, 4, 5, 3, 0, 2, 0, 0]
    assert (first.x.dtype, first.y.dtype, first.y.shape) == (torch.long, torch.float, (1, 1))
    ours, theirs = dataset.graphs.batch(index), Batch.from_data_list([dataset.graphs[i] for i in index.tolist()])
    assert all(torch.equal(ours[key], theirs[key]) for key in ("x", "edge_index", "y", "batch", "ptr"))
    assert (ours.num_graphs, ours.num_nodes) == (4, theirs.num_nodes)
    assert torch.equal(dataset.graphs[-1].x, dataset.graphs[41126].x)
    assert len(dataset.graphs[2:5]) == 3
    with pytest.raises(IndexError, match="graph 41127 of 41127"):
        dataset.graphs[41127]
    assert dataset.provenance.files["ogbg_molhiv/raw/edge.csv.gz"].startswith("d279b2d408f5")


def test_flickr_with_made_up_features(load, root, tmp_path):
    shutil.copytree(root / "Flickr", tmp_path / "Flickr")
    features = np.tile(np.float32([0, 1, 2, 0]), (89250, 125))
    np.save(tmp_path / "Flickr" / "raw" / "feats.npy", np.array([{"not": "numbers"}], dtype=object))
    with pytest.raises(rade.data.DataError, match=r"Flickr/raw/feats.npy cannot be read \(.*Python objects"):
        load("flickr", tmp_path)
    np.save(tmp_path / "Flickr" / "raw" / "feats.npy", features)
    dataset = load("flickr", tmp_path)
    assert [part.numel() for part in vars(dataset.split(run=1)).values()] == [44625, 22312, 22313]
    assert torch.allclose(dataset.graphs[0].x[17], torch.from_numpy(features[17]) / features[17].sum())


def test_ogbn_arxiv_with_made_up_features(load, root, tmp_path, monkeypatch):
    """The checksum of made-up ones cannot match."""
    shutil.copytree(root / "ogbn_arxiv", tmp_path / "ogbn_arxiv")
    path = tmp_path / "ogbn_arxiv" / "raw" / "node-feat.csv.gz"
    path.write_bytes(gzip.compress((b",".join([b"1"] * 128) + b"\n") * 169343, 1))
    monkeypatch.setattr(RawFile, "require", lambda *arguments: "")
    dataset = load("ogbn-arxiv", tmp_path)
    assert [part.numel() for part in vars(dataset.split(0)).values()] == [90941, 29799, 48603]


def test_empty_rows_and_graphs_and_repeated_edges():
    rows = row_normalised(sp.csr_matrix(np.array([[2.0, 6.0], [0.0, 0.0]])))
    assert np.allclose(rows.toarray(), [[0.25, 0.75], [0, 0]])
    source, target, empty = np.array([2, 0, 1, 1, 0]), np.array([0, 2, 1, 2, 2]), np.empty(0, dtype=np.int64)
    assert clean_edges(source, target, 3).tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    assert one_graph(torch.ones(1, 2), clean_edges(empty, empty, 1), torch.zeros(1)).density() == 0


def test_case_punctuation_and_aliases_do_not_matter_and_no_name_has_two_meanings():
    assert rade.data.resolve("Chameleon (filtered)").name == "chameleon-filtered"
    for entry in catalogue().values():
        for spelling in (entry.name.upper(), entry.title.replace("-", "_"), *entry.aliases):
            assert rade.data.resolve(spelling) is entry


def test_the_data_folder_is_the_argument_then_the_environment_then_the_cache(monkeypatch):
    monkeypatch.delenv("RADE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert rade.data.data_root() == Path("/somewhere/rade")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert rade.data.data_root() == Path.home() / ".cache" / "rade"
    monkeypatch.setenv("RADE_DATA", "elsewhere")
    assert rade.data.data_root() == Path("elsewhere")
    assert rade.data.data_root("~/here") == Path.home() / "here"


def test_every_real_data_set_has_files_and_a_source_and_pickles_have_checksums():
    for entry in catalogue().values():
        assert bool(raw_files(entry.name)) != entry.embedded
        for file in raw_files(entry.name):
            assert file.path.startswith(f"{entry.folder}/")
            assert file.sha256 or file.path.endswith(".npy")
            assert _address(entry, file).startswith("https://")
            assert "{" not in _address(entry, file)


def test_import_reports_what_is_missing_and_every_data_set_is_listed_with_its_state(mirror, tmp_path, rade):
    code, out, _ = rade("datasets", "import", mirror, "--data-root", tmp_path)
    assert code == 0
    assert "cora: 8 new, 0 already there\n" in out
    assert "flickr: 3 new, 0 already there; missing: Flickr/raw/feats.npy\n" in out
    again = rade("datasets", "--data-root", tmp_path, "import", mirror, "far-pair", "mutag")
    assert again == (0, "far-pair: generated, needs no file\nmutag: 0 new, 4 already there\n", "")
    code, _, err = rade("datasets", "--data-root", tmp_path, "import", mirror, "flickr")
    assert (code, "Flickr/raw/feats.npy is not in the mirror" in err) == (2, True)
    _, out, _ = rade("datasets", "--data-root", tmp_path)
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert tuple(lines) == tuple(catalogue())
    assert "2,708" in lines["cora"]
    assert str(tmp_path / "Cora") in lines["cora"]
    assert "missing feats.npy" in lines["flickr"]
    found = {one["name"]: one for one in json.loads(rade("datasets", "--json", "--data-root", tmp_path)[1])}
    files = [str(tmp_path / "Cora"), "missing feats.npy", "generated"]
    assert [found[name]["files"] for name in ("cora", "flickr", "csbm")] == files
    assert found["flickr"]["missing"] == ["Flickr/raw/feats.npy"]
    assert {"level", "metric", "split", "nodes", "edges", "licence", "source"} <= set(found["cora"])
