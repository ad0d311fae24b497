"""The embedded tasks are what they claim to be: learnable, over-fitted, or out of reach of short-sighted models."""

import math

import pytest
import torch
from data_models import GCN, accuracy, fit
from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import contains_self_loops, is_undirected

import rade.data

SIZES = {
    "csbm": {"nodes": 300},
    "ring-transfer": {"rings": 50, "size": 6},
    "tree-neighbors-match": {"trees": 40, "depth": 2},
    "far-pair": {"graphs": 60, "length": 6},
}


def csbm_oracle(dataset: rade.data.Dataset) -> Tensor:
    """Beliefs of someone who knows the generator: the words' likelihood, and neighbors through the citation law."""
    data, options, classes = dataset.graphs[0], dataset.provenance.options, dataset.classes
    own = torch.arange(options["words"]) % classes == torch.arange(classes)[:, None]
    chance = torch.where(own, options["topic"], options["background"])
    x = data.x.to_dense()[:, : options["words"]]
    likelihood = x @ chance.log().T + (1 - x) @ (1 - chance).log().T
    train = dataset.split(0).train
    likelihood[train] = torch.where(functional.one_hot(data.y[train], classes) == 1, 0.0, -1e3)
    cites = torch.full((classes, classes), (1 - options["homophily"]) / (classes - 1))
    cites.fill_diagonal_(options["homophily"])
    source, target = data.edge_index
    beliefs = likelihood.softmax(dim=1)
    for _ in range(20):  # damped mean field: enough to settle
        messages = (beliefs @ cites).log()
        beliefs = (beliefs + likelihood.index_add(0, target, messages[source]).softmax(dim=1)) / 2
    return beliefs


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_csbm_is_learnable_and_a_plain_gcn_overfits(seed: int):
    dataset = rade.data.load("csbm", seed=seed)
    data, split = dataset.graphs[0], dataset.split(0)
    assert accuracy(csbm_oracle(dataset), data.y, split.test) >= 0.92
    torch.manual_seed(seed)
    model = GCN(dataset.features, 64, dataset.classes, layers=2)
    logits = fit(model, (data.x.to_dense(), data.edge_index), data.y, split.train, epochs=60)
    assert accuracy(logits, data.y, split.train) >= 0.99
    assert 0.65 <= accuracy(logits, data.y, split.test) <= 0.85


def test_csbm_follows_its_arguments():
    """Rates within five standard deviations: false alarm below 1e-6 each at a fresh seed."""
    dataset = rade.data.csbm(nodes=4000, classes=4, degree=8, homophily=0.7, words=200, topic=0.3, background=0.1)
    data = dataset.graphs[0]
    source, target = data.edge_index
    inside = float((data.y[source] == data.y[target]).float().mean())
    assert abs(inside - 0.7) < 5 * math.sqrt(0.7 * 0.3 / (source.numel() / 2))
    assert source.numel() / 4000 == pytest.approx(8, rel=0.01)  # a few duplicates and loops are merged
    own = torch.arange(200) % 4 == data.y[:, None]
    x = data.x.to_dense()[:, :200]
    assert abs(float(data.x.to_dense()[:, 200:].std()) - 2.0) < 5 * 2.0 / math.sqrt(2 * 4000 * 50)
    for words, rate in ((x[own], 0.3), (x[~own], 0.1)):
        assert abs(float(words.mean()) - rate) < 5 * math.sqrt(rate * (1 - rate) / words.numel())
    assert torch.bincount(data.y[dataset.split(0).train]).tolist() == [30] * 4


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
