"""The embedded tasks are what they claim to be: learnable, over-fitted, or out of reach of short-sighted models."""

import math

import pytest
import torch
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data

SIZES = {
    "csbm": {"nodes": 300},
    "ring-transfer": {"rings": 50, "size": 6},
    "tree-neighbors-match": {"trees": 40, "depth": 2},
    "far-pair": {"graphs": 60, "length": 6},
}


def test_the_default_csbm_is_the_one_that_was_fixed_before_looking():
    """Changing a default after having seen results would make the demo worth nothing."""
    expected = {"nodes": 1000, "classes": 4, "degree": 5.0, "homophily": 0.75, "features": 64, "signal": 1.0}
    expected |= {"labelled": 20, "validation": 0.3, "seed": 0, "words": 0, "topic": 0.1, "background": 0.02}
    assert rade.data.csbm().provenance.options == expected


def test_csbm_follows_its_arguments():
    """Rates within five standard deviations: false alarm below 1e-6 each at a fresh seed."""
    dataset = rade.data.csbm(nodes=4000, classes=4, degree=8, homophily=0.7, content=rade.data.Clouds(20, 3.0))
    data = dataset.graphs[0]
    source, target = data.edge_index
    inside = float((data.y[source] == data.y[target]).float().mean())
    assert abs(inside - 0.7) < 5 * math.sqrt(0.7 * 0.3 / (source.numel() / 2))
    assert source.numel() / 4000 == pytest.approx(8, rel=0.01)  # a few duplicates and loops are merged
    centres = torch.stack([data.x[data.y == label].mean(dim=0) for label in range(4)])
    # The mean of 1000 points misses its centre by less than 0.25 in 20 dimensions.
    assert float((centres.norm(dim=1) - 3.0).abs().max()) < 0.25
    assert float((data.x - centres[data.y]).std()) == pytest.approx(1.0, abs=0.02)
    assert torch.bincount(data.y[dataset.split(0).train]).tolist() == [20] * 4


def test_csbm_has_bags_of_words_on_request():
    assert rade.data.csbm(content=rade.data.Words(200)).graphs[0].x.layout is torch.sparse_csr
    data = rade.data.csbm(nodes=4000, content=rade.data.Words(200, 0.3, 0.1)).graphs[0]
    own = torch.arange(200) % 4 == data.y[:, None]
    x = data.x.to_dense()
    for words, rate in ((x[own], 0.3), (x[~own], 0.1)):
        assert abs(float(words.mean()) - rate) < 5 * math.sqrt(rate * (1 - rate) / words.numel())


@pytest.mark.parametrize("name", SIZES)
def test_generators_are_seeded_simple_and_split_into_disjoint_parts(name: str):
    dataset, again = rade.data.load(name, **SIZES[name]), rade.data.load(name, **SIZES[name])
    other = rade.data.load(name, seed=1, **SIZES[name])
    x, same, different = (d.graphs[0].x.to_dense() for d in (dataset, again, other))
    assert torch.equal(x, same)
    assert not (torch.equal(x, different) and torch.equal(dataset.graphs[0].edge_index, other.graphs[0].edge_index))
    for graph in (dataset.graphs[0], dataset.graphs[-1]):
        assert is_undirected(graph.edge_index, num_nodes=graph.num_nodes)
        assert not contains_self_loops(graph.edge_index)
        assert graph.is_coalesced()
    parts = list(vars(dataset.split(0)).values())
    assert torch.cat(parts).unique().numel() == sum(part.numel() for part in parts)
    assert all(torch.equal(a, b) for a, b in zip(parts, vars(again.split(5, seed=9)).values()))
    assert dataset.provenance.options.items() >= SIZES[name].items()
    assert dataset.folds == 0


@pytest.mark.parametrize("name", SIZES)
def test_the_catalogue_states_the_default_sizes(name: str):
    dataset = rade.data.load(name)
    entry, graphs = rade.data.resolve(name), dataset.graphs
    data = graphs[0] if dataset.level == "node" else graphs.batch(torch.arange(len(graphs)))
    assert (len(graphs), data.num_nodes, data.edge_index.size(1) // 2) == (entry.graphs, entry.nodes, entry.edges)
    assert (dataset.features, dataset.classes, dataset.level) == (entry.features, entry.classes, entry.level)
    split = dataset.split(0)
    assert entry.split.split()[1] == "/".join(str(part.numel()) for part in vars(split).values())


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("csbm", {"nodes": 20}, "csbm needs nodes ≥"),
        ("csbm", {"homophily": 1.5}, "homophily in"),
        ("ring-transfer", {"size": 2}, "size ≥ 3"),
        ("tree-neighbors-match", {"depth": 0}, "1 ≤ depth ≤ 8"),
        ("far-pair", {"length": 2}, "length ≥ 3"),
    ],
)
def test_impossible_sizes_are_explained(name: str, options: dict, sentence: str):
    with pytest.raises(rade.data.DataError, match=sentence):
        rade.data.load(name, **options)


@pytest.mark.parametrize("labelled", [0, -5, 2.5])
def test_a_split_needs_labels_in_whole_numbers(labelled):
    with pytest.raises(rade.data.DataError, match=f"whole number of at least 1, got {labelled}"):
        rade.data.load("csbm", labelled=labelled)
