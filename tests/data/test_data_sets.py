"""Every data set of the mirror has the sizes, labels and splits that the mirror's description states."""

from pathlib import Path

import pytest
import torch
from data_facts import FACTS, whole
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data
from rade.data.catalogue import catalogue
from rade.data.content import _known


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


def test_every_real_data_set_has_a_known_content():
    assert set(_known()) == {name for name, entry in catalogue().items() if not entry.embedded}
    assert len(set(_known().values())) == len(_known())


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
