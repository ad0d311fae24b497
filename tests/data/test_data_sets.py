"""Every data set of the mirror is what the mirror's description and PyG's own classes say."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.datasets import Amazon, HeterophilousGraphDataset, Planetoid, TUDataset
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data
from rade.data.files import RawFolder
from rade.data.tensors import choose_layout, clean_edges, one_graph, row_normalised

# The number of each label, and the sizes of the split of run 0. Sizes of graphs are checked by `load` itself.
FACTS = {
    "cora": ([351, 217, 418, 818, 426, 298, 180], (140, 500, 1000)),
    "citeseer": ([264, 590, 668, 701, 596, 508], (120, 500, 1000)),
    "pubmed": ([4103, 7739, 7875], (60, 500, 1000)),
    "cs": (
        [708, 462, 2050, 429, 1394, 2193, 371, 924, 775, 118, 1444, 2033, 420, 4136, 876],
        (10999, 3666, 3668),
    ),
    "computer": ([436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], (8251, 2750, 2751)),
    "physics": ([5750, 5045, 17426, 2753, 3519], (20695, 6898, 6900)),
    "mutag": ([63, 125], (169, 19, 19)),
    "proteins": ([663, 450], (1001, 112, 112)),
    "imdb-b": ([500, 500], (900, 100, 100)),
    "imdb-m": ([500, 500, 500], (1350, 150, 150)),
    "ogbg-molhiv": ([1443], (32901, 4113, 4113)),
    "peptides-func": ([1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044], (10873, 2331, 2331)),
    "minesweeper": ([2000], (5000, 2500, 2500)),
    "tolokers": ([2566], (5879, 2939, 2940)),
    "chameleon-filtered": ([242, 134, 209, 164, 141], (409, 287, 194)),
    "squirrel-filtered": ([756, 516, 397, 321, 233], (1053, 718, 452)),
    "nci1": ([2053, 2057], (3699, 411, 411)),
}
TU = ("mutag", "proteins", "imdb-b", "imdb-m", "nci1")


def load(name: str, root: Path) -> rade.data.Dataset:
    return rade.data.load(name, root, download=False)


def whole(dataset: rade.data.Dataset) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, edge_index, y and the number of nodes of each graph, in one disjoint union."""
    if dataset.level == "node":
        data = dataset.graphs[0]
        return data.x, data.edge_index, data.y, torch.tensor([data.num_nodes])
    data = dataset.graphs.batch(torch.arange(len(dataset.graphs)))
    return data.x, data.edge_index, data.y, data.ptr.diff()


@pytest.mark.parametrize("name", FACTS)
def test_labels_splits_density_and_clean_edges(name: str, root: Path):
    (labels, sizes), dataset, entry = FACTS[name], load(name, root), rade.data.resolve(name)
    x, edge_index, y, nodes = whole(dataset)
    assert (y.sum(dim=0).long() if y.is_floating_point() else torch.bincount(y)).tolist() == labels
    split = dataset.split(run=0)
    assert (split.train.numel(), split.val.numel(), split.test.numel()) == sizes
    assert (dataset.metric, dataset.loss, dataset.classes) == (entry.metric, entry.loss, entry.classes)
    assert x.size(1) == dataset.features == entry.features
    pairs = (nodes * (nodes - 1) / 2).double().sum()
    assert dataset.density == pytest.approx(edge_index.size(1) / 2 / float(pairs), rel=1e-6)
    assert not contains_self_loops(edge_index)
    assert is_undirected(edge_index, num_nodes=x.size(0))
    keys = edge_index[0] * x.size(0) + edge_index[1]
    assert bool((keys[1:] > keys[:-1]).all())


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_planetoid_agrees_with_pygs_own_class(name: str, root: Path):
    ours, theirs = load(name, root), Planetoid(str(root), rade.data.resolve(name).folder)[0]
    data = ours.graphs[0]
    assert torch.equal(data.x.to_dense(), theirs.x)
    assert torch.equal(data.y, theirs.y)
    assert torch.equal(data.edge_index, theirs.edge_index.flip(0))  # theirs are sorted by target
    for part, index in vars(ours.split(run=3)).items():
        assert torch.equal(index, theirs[f"{part}_mask"].nonzero().squeeze(1))


def test_computer_agrees_with_pygs_own_class(root: Path):
    data, theirs = load("computer", root).graphs[0], Amazon(str(root), "Computers", transform=NormalizeFeatures())[0]
    assert torch.equal(data.edge_index, theirs.edge_index)
    assert torch.equal(data.y, theirs.y)
    assert torch.allclose(data.x, theirs.x, atol=1e-7)


@pytest.mark.parametrize("name", ["minesweeper", "tolokers"])
def test_heterophilous_graphs_agree_with_pygs_own_class(name: str, root: Path):
    ours, theirs = load(name, root), HeterophilousGraphDataset(str(root), name.capitalize())[0]
    data = ours.graphs[0]
    assert torch.equal(data.x.to_dense(), theirs.x)
    assert torch.equal(data.edge_index, theirs.edge_index)
    assert torch.equal(data.y[:, 0].long(), theirs.y)
    for run in range(10):
        for part, index in vars(ours.split(run)).items():
            assert torch.equal(index, theirs[f"{part}_mask"][:, run].nonzero().squeeze(1))


@pytest.mark.parametrize("name", TU)
def test_tu_agrees_with_pygs_own_class_and_has_stratified_folds(name: str, root: Path):
    dataset, theirs = load(name, root), TUDataset(str(root), rade.data.resolve(name).folder)
    for index in range(0, len(theirs), 37):
        mine, other = dataset.graphs[index], theirs[index]
        assert torch.equal(mine.edge_index, other.edge_index)
        assert torch.equal(mine.y, other.y)
        assert other.x is None or torch.equal(mine.x, other.x)
    y, folds = whole(dataset)[2], [dataset.fold(k) for k in range(10)]
    assert torch.equal(torch.cat([fold.test for fold in folds]).sort().values, torch.arange(len(y)))
    for k, fold in enumerate(folds):
        assert torch.equal(fold.val, fold.test)
        assert torch.equal(torch.cat([fold.train, fold.test]).sort().values, torch.arange(len(y)))
        assert bool(((torch.bincount(y[fold.test]) - torch.bincount(y) / 10).abs() < 1).all())
        assert torch.equal(dataset.split(run=k, seed=7).test, fold.test)
    with pytest.raises(rade.data.DataError, match="between 0 and 9, got 10"):
        dataset.fold(10)


def test_imdb_features_are_one_hot_over_the_distinct_degrees(root: Path):
    x, edge_index, _, _ = whole(load("imdb-b", root))
    degree = torch.bincount(edge_index[0], minlength=x.size(0))
    distinct = degree.unique()
    assert (distinct.numel(), int(distinct.max())) == (x.size(1), 135)
    assert torch.equal(distinct[x.argmax(dim=1)], degree)
    assert torch.equal(x.sum(dim=1), torch.ones(x.size(0)))


@pytest.mark.parametrize("name", ["cs", "physics"])
def test_rows_sum_to_one_and_random_splits_are_new_in_each_run(name: str, root: Path):
    dataset = load(name, root)
    x = dataset.graphs[0].x
    sums = torch.mv(x, torch.ones(x.size(1)))
    assert x.layout is torch.sparse_csr
    assert torch.allclose(sums[sums > 0], torch.ones(()), atol=1e-5)
    first, again, second = dataset.split(0, seed=5), dataset.split(0, seed=5), dataset.split(1, seed=5)
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, second.train)
    assert torch.equal(second.train, dataset.split(0, seed=6).train)
    assert torch.equal(torch.cat(list(vars(first).values())).sort().values, torch.arange(x.size(0)))
    with pytest.raises(rade.data.DataError, match="no folds; use split"):
        dataset.fold(0)


def test_molecules_have_categorical_atoms_and_pygs_collation(root: Path):
    dataset = load("ogbg-molhiv", root)
    first, index = dataset.graphs[0], torch.tensor([5, 0, 187, 5])
    assert dataset.encoder == "atom"
    assert first.x[0].tolist() == [5, 0, 4, 5, 3, 0, 2, 0, 0]
    assert (first.x.dtype, first.y.dtype, first.y.shape) == (torch.long, torch.float, (1, 1))
    ours, theirs = dataset.graphs.batch(index), Batch.from_data_list([dataset.graphs[i] for i in index.tolist()])
    assert all(torch.equal(ours[key], theirs[key]) for key in ("x", "edge_index", "y", "batch", "ptr"))
    assert (ours.num_graphs, ours.num_nodes) == (4, theirs.num_nodes)
    assert torch.equal(dataset.graphs[-1].x, dataset.graphs[41126].x)
    assert len(dataset.graphs[2:5]) == 3
    with pytest.raises(IndexError, match="graph 41127 of 41127"):
        dataset.graphs[41127]


def test_provenance_names_source_licence_and_the_checksum_of_every_file(root: Path):
    found = load("mutag", root).provenance
    assert found.files["MUTAG/raw/MUTAG_A.txt"].startswith("d9656ca7493f")
    assert (found.source, found.licence) == ("TUDataset", "not stated")


FEATURES = np.maximum(np.random.default_rng(0).integers(-2, 3, (89250, 500), dtype=np.int8), 0).astype(np.float32)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        (FEATURES, ""),
        (FEATURES[:10], r"should have shape \(89250, 500\), got \(10, 500\)"),
        (np.array([{"not": "numbers"}], dtype=object), "is not a plain array"),
    ],
    ids=["right", "shape", "pickle"],
)
def test_flickr_with_made_up_features(features: np.ndarray, sentence: str, root: Path, tmp_path: Path):
    shutil.copytree(root / "Flickr", tmp_path / "Flickr")
    np.save(tmp_path / "Flickr" / "raw" / "feats.npy", features)
    if sentence:
        with pytest.raises(rade.data.DataError, match=sentence):
            load("flickr", tmp_path)
        return
    dataset = load("flickr", tmp_path)
    data = dataset.graphs[0]
    assert [part.numel() for part in vars(dataset.split(run=1)).values()] == [44625, 22312, 22313]
    assert torch.allclose(data.x[17], torch.from_numpy(features[17]) / features[17].sum())


def test_ogbn_arxiv_with_made_up_features(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its tables must have as many lines as stated; the checksum of made-up ones cannot match."""
    shutil.copytree(root / "ogbn_arxiv", tmp_path / "ogbn_arxiv")
    path = tmp_path / "ogbn_arxiv" / "raw" / "node-feat.csv.gz"
    path.write_bytes(gzip.compress((b",".join([b"1"] * 128) + b"\n") * 169343, 1))
    with pytest.raises(rade.data.DataError, match=r"node-feat\.csv\.gz in .* is (altered|truncated)"):
        load("ogbn-arxiv", tmp_path)
    monkeypatch.setattr(RawFolder, "_accept", lambda *arguments: None)
    dataset = load("ogbn-arxiv", tmp_path)
    assert [part.numel() for part in vars(dataset.split(0)).values()] == [90941, 29799, 48603]
    assert torch.equal(dataset.graphs[0].edge_index, load("arxiv-structure", tmp_path).graphs[0].edge_index)
    for content, sentence in (
        (gzip.compress(b"1\n"), "should have 169343 lines, got 1"),
        (b"no", "not a readable gzip"),
    ):
        path.write_bytes(content)
        with pytest.raises(rade.data.DataError, match=sentence):
            load("ogbn-arxiv", tmp_path)


@pytest.mark.parametrize(("density", "layout"), [(0.05, torch.sparse_csr), (0.5, torch.strided)])
def test_the_layout_of_features_follows_their_density(density: float, layout: torch.layout):
    matrix = sp.random(100, 50, density, format="csr", random_state=0)
    x = choose_layout(matrix)
    assert (x.layout, x.dtype) == (layout, torch.float32)
    assert np.allclose(x.to_dense().numpy(), matrix.toarray())


def test_empty_rows_and_graphs_and_repeated_edges():
    rows = row_normalised(sp.csr_matrix(np.array([[2.0, 6.0], [0.0, 0.0]])))
    assert np.allclose(rows.toarray(), [[0.25, 0.75], [0, 0]])
    source, target, empty = np.array([2, 0, 1, 1, 0]), np.array([0, 2, 1, 2, 2]), np.empty(0, dtype=np.int64)
    assert clean_edges(source, target, 3).tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    assert clean_edges(empty, empty, 0).shape == (2, 0)
    assert one_graph(torch.ones(1, 2), clean_edges(empty, empty, 1), torch.zeros(1)).density() == 0
