"""Our readers agree with PyG's own classes; folds and one-hot degrees follow the protocol."""

from pathlib import Path

import pytest
import torch
from data_facts import TU, whole
from torch_geometric.datasets import Amazon, HeterophilousGraphDataset, Planetoid, TUDataset
from torch_geometric.transforms import NormalizeFeatures

import rade.data


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_planetoid_agrees_with_pygs_own_class(name: str, root: Path):
    ours = rade.data.load(name, root, download=False)
    theirs = Planetoid(str(root), rade.data.resolve(name).folder)[0]
    data, split = ours.graphs[0], ours.split(run=3)
    assert torch.equal(data.x.to_dense(), theirs.x)
    assert torch.equal(data.y, theirs.y)
    assert torch.equal(data.edge_index, theirs.edge_index.flip(0))  # theirs are sorted by target
    for part, mask in (("train", "train_mask"), ("val", "val_mask"), ("test", "test_mask")):
        assert torch.equal(vars(split)[part], theirs[mask].nonzero().squeeze(1))


def test_computer_agrees_with_pygs_own_class(root: Path):
    data = rade.data.load("computer", root, download=False).graphs[0]
    theirs = Amazon(str(root), "Computers", transform=NormalizeFeatures())[0]
    assert torch.equal(data.edge_index, theirs.edge_index)
    assert torch.equal(data.y, theirs.y)
    assert torch.allclose(data.x, theirs.x, atol=1e-7)


@pytest.mark.parametrize("name", ["minesweeper", "tolokers"])
def test_heterophilous_graphs_agree_with_pygs_own_class(name: str, root: Path):
    ours = rade.data.load(name, root, download=False)
    theirs = HeterophilousGraphDataset(str(root), name.capitalize())[0]
    data = ours.graphs[0]
    assert torch.equal(data.x.to_dense(), theirs.x)
    assert torch.equal(data.edge_index, theirs.edge_index)
    assert torch.equal(data.y[:, 0].long(), theirs.y)
    for run in range(10):
        for part, indices in vars(ours.split(run)).items():
            assert torch.equal(indices, theirs[f"{part}_mask"][:, run].nonzero().squeeze(1))


@pytest.mark.parametrize("name", TU)
def test_tu_agrees_with_pygs_own_class(name: str, root: Path):
    ours = rade.data.load(name, root, download=False)
    theirs = TUDataset(str(root), rade.data.resolve(name).folder)
    for index in range(0, len(theirs), 37):
        mine, other = ours.graphs[index], theirs[index]
        assert torch.equal(mine.edge_index, other.edge_index)
        assert torch.equal(mine.y, other.y)
        if name in ("mutag", "proteins", "nci1"):
            assert torch.equal(mine.x, other.x)


@pytest.mark.parametrize(("name", "largest"), [("imdb-b", 135), ("imdb-m", 88)])
def test_imdb_features_are_one_hot_over_the_distinct_degrees(name: str, largest: int, root: Path):
    x, edge_index, _ = whole(rade.data.load(name, root, download=False))
    degree = torch.bincount(edge_index[0], minlength=x.size(0))
    distinct = degree.unique()
    assert (distinct.numel(), int(distinct.max())) == (x.size(1), largest)
    assert torch.equal(distinct[x.argmax(dim=1)], degree)
    assert torch.equal(x.sum(dim=1), torch.ones(x.size(0)))


@pytest.mark.parametrize("name", TU)
def test_tu_folds_are_stratified_disjoint_and_fixed(name: str, root: Path):
    dataset = rade.data.load(name, root, download=False)
    y = torch.cat([graph.y for graph in dataset.graphs])
    assert dataset.folds == 10
    folds = [dataset.fold(k) for k in range(10)]
    assert torch.equal(torch.cat([fold.test for fold in folds]).sort().values, torch.arange(len(y)))
    share = torch.bincount(y) / 10
    for k, fold in enumerate(folds):
        assert torch.equal(fold.val, fold.test)
        assert torch.equal(torch.cat([fold.train, fold.test]).sort().values, torch.arange(len(y)))
        assert bool(((torch.bincount(y[fold.test]) - share).abs() < 1).all())
        assert torch.equal(dataset.split(run=k, seed=7).test, fold.test)
    with pytest.raises(rade.data.DataError, match="between 0 and 9, got 10"):
        dataset.fold(10)
