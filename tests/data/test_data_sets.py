"""Every data set of the mirror has the sizes, labels and splits that the mirror's description states."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import Amazon, Planetoid, TUDataset
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data


@dataclass(frozen=True)
class Facts:
    """graphs, nodes, undirected edges, features, classes; the number of each label; the split sizes."""

    sizes: tuple[int, int, int, int, int]
    labels: list[int]
    split: tuple[int, int, int]
    metric: str = "accuracy"
    loss: str = "multiclass"


FACTS = {
    "cora": Facts((1, 2708, 5278, 1433, 7), [351, 217, 418, 818, 426, 298, 180], (140, 500, 1000)),
    "citeseer": Facts((1, 3327, 4552, 3703, 6), [264, 590, 668, 701, 596, 508], (120, 500, 1000)),
    "pubmed": Facts((1, 19717, 44324, 500, 3), [4103, 7739, 7875], (60, 500, 1000)),
    "cs": Facts(
        (1, 18333, 81894, 6805, 15),
        [708, 462, 2050, 429, 1394, 2193, 371, 924, 775, 118, 1444, 2033, 420, 4136, 876],
        (10999, 3666, 3668),
    ),
    "computer": Facts(
        (1, 13752, 245861, 767, 10), [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], (8251, 2750, 2751)
    ),
    "physics": Facts((1, 34493, 247962, 8415, 5), [5750, 5045, 17426, 2753, 3519], (20695, 6898, 6900)),
    "mutag": Facts((188, 3371, 3721, 7, 2), [63, 125], (169, 19, 19)),
    "proteins": Facts((1113, 43471, 81044, 3, 2), [663, 450], (1001, 112, 112)),
    "imdb-b": Facts((1000, 19773, 96531, 65, 2), [500, 500], (900, 100, 100)),
    "imdb-m": Facts((1500, 19502, 98903, 59, 3), [500, 500, 500], (1350, 150, 150)),
    "ogbg-molhiv": Facts((41127, 1049163, 1129688, 9, 1), [1443], (32901, 4113, 4113), metric="roc-auc", loss="binary"),
    "peptides-func": Facts(
        (15535, 2344859, 2386987, 9, 10),
        [1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044],
        (10873, 2331, 2331),
        metric="average-precision",
        loss="multilabel",
    ),
}
TU = ("mutag", "proteins", "imdb-b", "imdb-m")


def whole(dataset: rade.data.Dataset) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, edge_index and y of all graphs in one disjoint union."""
    if dataset.level == "node":
        data = dataset.graphs[0]
    else:
        data = dataset.graphs.batch(torch.arange(len(dataset.graphs)))
    return data.x, data.edge_index, data.y


@pytest.mark.parametrize("name", FACTS)
def test_sizes_labels_and_splits(name: str, root: Path):
    facts, dataset = FACTS[name], rade.data.load(name, root, download=False)
    x, edge_index, y = whole(dataset)
    assert (len(dataset.graphs), x.size(0), edge_index.size(1) // 2, dataset.features, dataset.classes) == facts.sizes
    assert x.size(1) == dataset.features
    labels = y.sum(dim=0).long() if y.is_floating_point() else torch.bincount(y)
    assert labels.tolist() == facts.labels
    split = dataset.split(run=0)
    assert (split.train.numel(), split.val.numel(), split.test.numel()) == facts.split
    assert (dataset.name, dataset.metric, dataset.loss) == (name, facts.metric, facts.loss)


@pytest.mark.parametrize("name", FACTS)
def test_the_catalogue_states_the_same_sizes(name: str):
    entry = rade.data.resolve(name)
    assert (entry.graphs, entry.nodes, entry.edges, entry.features, entry.classes) == FACTS[name].sizes


@pytest.mark.parametrize("name", FACTS)
def test_graphs_are_undirected_simple_and_sorted(name: str, root: Path):
    x, edge_index, _ = whole(rade.data.load(name, root, download=False))
    assert not contains_self_loops(edge_index)
    assert is_undirected(edge_index, num_nodes=x.size(0))
    keys = edge_index[0] * x.size(0) + edge_index[1]
    assert bool((keys[1:] > keys[:-1]).all())


@pytest.mark.parametrize("name", FACTS)
def test_the_density_is_pooled(name: str, root: Path):
    dataset = rade.data.load(name, root, download=False)
    data = dataset.graphs[0] if dataset.level == "node" else dataset.graphs.batch(torch.arange(len(dataset.graphs)))
    sizes = torch.tensor([data.num_nodes]) if dataset.level == "node" else data.ptr.diff()
    pairs = (sizes * (sizes - 1) / 2).double().sum()
    assert dataset.density == pytest.approx(data.edge_index.size(1) / 2 / float(pairs), rel=1e-6)


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


@pytest.mark.parametrize("name", TU)
def test_tu_agrees_with_pygs_own_class(name: str, root: Path):
    ours = rade.data.load(name, root, download=False)
    theirs = TUDataset(str(root), rade.data.resolve(name).folder)
    for index in range(0, len(theirs), 37):
        mine, other = ours.graphs[index], theirs[index]
        assert torch.equal(mine.edge_index, other.edge_index)
        assert torch.equal(mine.y, other.y)
        if name in ("mutag", "proteins"):
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


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ogbg-molhiv", [[1232], [81], [130]]),
        (
            "peptides-func",
            [
                [966, 385, 698, 677, 6820, 2148, 1162, 2002, 217, 2825],
                [207, 79, 150, 146, 1464, 461, 250, 433, 43, 609],
                [205, 81, 147, 146, 1461, 468, 250, 431, 39, 610],
            ],
        ),
    ],
)
def test_official_splits_have_the_stated_label_counts(name: str, counts: list[list[int]], root: Path):
    dataset = rade.data.load(name, root, download=False)
    split, y = dataset.split(run=0), whole(dataset)[2]
    assert [y[part].sum(dim=0).long().tolist() for part in vars(split).values()] == counts
    assert torch.cat(list(vars(split).values())).unique().numel() == len(dataset.graphs)


def test_molecules_have_categorical_atoms_and_float_targets(root: Path):
    dataset = rade.data.load("ogbg-molhiv", root, download=False)
    first = dataset.graphs[0]
    assert dataset.encoder == "atom"
    assert first.x[0].tolist() == [5, 0, 4, 5, 3, 0, 2, 0, 0]
    assert (first.x.dtype, first.y.dtype, first.y.shape) == (torch.long, torch.float, (1, 1))


@pytest.mark.parametrize("name", ["cs", "computer", "physics"])
def test_random_splits_are_new_in_each_run_and_cover_all_nodes(name: str, root: Path):
    dataset = rade.data.load(name, root, download=False)
    first, again, second = dataset.split(0, seed=5), dataset.split(0, seed=5), dataset.split(1, seed=5)
    assert torch.equal(first.train, again.train)
    assert not torch.equal(first.train, second.train)
    assert torch.equal(second.train, dataset.split(0, seed=6).train)
    everything = torch.cat([first.train, first.val, first.test]).sort().values
    assert torch.equal(everything, torch.arange(dataset.graphs[0].num_nodes))
    with pytest.raises(rade.data.DataError, match="no folds; use split"):
        dataset.fold(0)


@pytest.mark.parametrize("name", ["cs", "computer", "physics"])
def test_rows_sum_to_one(name: str, root: Path):
    x = rade.data.load(name, root, download=False).graphs[0].x
    sums = torch.mv(x, torch.ones(x.size(1)))
    assert torch.allclose(sums[sums > 0], torch.ones(()), atol=1e-5)
    assert bool((sums >= 0).all())


def test_sparse_features_stay_sparse_by_density(root: Path):
    layouts = {name: rade.data.load(name, root, download=False).graphs[0].x.layout for name in list(FACTS)[:6]}
    assert {name for name, layout in layouts.items() if layout is torch.sparse_csr} == {
        "cora",
        "citeseer",
        "cs",
        "physics",
    }


def test_provenance_names_source_licence_and_the_checksum_of_every_file(root: Path):
    fresh = rade.data.load("mutag", root, download=False).provenance
    cached = rade.data.load("mutag", root, download=False).provenance
    assert fresh == cached
    assert fresh.files["MUTAG/raw/MUTAG_A.txt"].startswith("d9656ca7493f")
    assert (fresh.source, fresh.licence) == ("TUDataset", "not stated")
