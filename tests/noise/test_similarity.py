"""Similarities of the ends of edges: what they are, and that spurious edges do not testify for themselves."""

from __future__ import annotations

import pytest
import torch
from tests.noise.test_estimate import NODES, Trained, communities, trained  # noqa: F401 - a fixture
from torch_geometric.nn import GATConv

import rade
from rade.noise import CommonNeighbors, DegreeEvidence, EdgeEvidence, Features, estimate_noise, every_evidence, hidden
from rade.noise.edges import similarity_of_edges
from rade.noise.guesses import Candidate
from rade.testing import undirected
from rade.train.stages import Corruption
from zoo import LAYERS, Net, random_edges

SQUARE = undirected([(0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (3, 4)], 5)


def test_common_neighbors_are_counted_over_the_degrees():
    pairs = torch.tensor([[0, 1, 0, 1], [2, 3, 4, 4]])
    found = CommonNeighbors().of(SQUARE, pairs)
    expected = torch.tensor([2 / 3, 2 / 6**0.5, 1 / 3**0.5, 0.0])  # 1 and 3; 0 and 2; 3; nobody
    torch.testing.assert_close(found, expected)


def test_both_directions_of_an_edge_are_alike():
    graph = rade.Graph.from_edge_index(random_edges(50, 200), 50)
    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    for kind in (Features(x), CommonNeighbors()):
        found = similarity_of_edges(graph, kind)
        torch.testing.assert_close(found, kind.of(graph, graph.edge_index))
        assert torch.equal(found, found[graph.pattern.transposition])


def test_edges_of_a_directed_graph_are_their_own():
    """The reverse of an edge may be missing: nothing is taken from it."""
    graph = rade.Graph.from_edge_index(torch.tensor([[0, 2, 1, 3], [1, 1, 0, 2]]), 4, directed=True)
    kind = Features(torch.randn(4, 6, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(similarity_of_edges(graph, kind), kind.of(graph, graph.edge_index))


def test_hidden_features_do_not_know_the_edges(trained: Trained):  # noqa: F811
    """They are those of the nodes alone, whatever the graph."""
    noisy = Corruption(add=1.0, seed=1).of(trained.graph)
    found, other = (hidden(trained.model, trained.x, graph).x for graph in (trained.graph, noisy))
    assert torch.equal(found, other)
    assert found.shape[0] == NODES
    assert found.std() > 0


def test_every_kind_of_evidence_tells_spurious_edges(trained: Trained):  # noqa: F811
    """Trust in real edges is larger than in spurious ones; hidden features tell what raw ones hardly do."""
    corruption = Corruption(add=1.0, seed=1)
    noisy = corruption.of(trained.graph)
    dense = torch.zeros(NODES, NODES, dtype=torch.bool)
    dense[trained.graph.pattern.target, trained.graph.pattern.source] = True
    real = dense[noisy.pattern.target, noisy.pattern.source]
    *evidence, degrees = every_evidence(trained.model, trained.x, noisy)
    assert [one.name for one in evidence] == ["features", "hidden features", "common neighbors"]
    assert degrees.name == "degrees"  # tells no edges apart, only nodes
    told = []
    for one in evidence:
        trust = one.trust(corruption.share).edges
        told.append(float(trust[real].mean() - trust[~real].mean()))
    raw, learned, common = told
    assert 0.0 < 2 * raw < learned
    assert common > 0.02


def test_what_fewer_kinds_of_trust_choose_follows_from_the_same_passes(trained: Trained):  # noqa: F811
    noisy = Corruption(add=2.0, seed=1).of(trained.graph)
    evidence = every_evidence(trained.model, trained.x, noisy)
    every = trained.estimate(noisy, by_edge=evidence)
    assert every.among("features").curve == trained.estimate(noisy).curve
    assert every.among().curve == trained.estimate(noisy, by_edge=False).curve
    assert {guess.by for guess in every.curve} == {"", "features", "hidden features", "common neighbors", "degrees"}
    best = max(guess.score for guess in every.curve)
    assert every.chosen.score == best
    assert every.chosen.how in str(every)
    kinds = [guess.candidate.by for guess in every.worth_training]
    assert kinds[:5] == ["", "features", "hidden features", "common neighbors", "degrees"]
    assert set(kinds[5:]) <= {"features", "hidden features", "common neighbors"}  # at the shares that they tell
    assert all(guess.candidate.share > 0 for guess in every.worth_training)
    assert max(guess.candidate.score for guess in every.worth_training) == best


def test_noise_that_prefers_hubs_is_undone_by_degrees(trained: Trained):  # noqa: F811
    """Ends of spurious edges by a power law: 42 % right, 75 % with their mean taken off alike, 88 % by degrees."""
    source = torch.Generator().manual_seed(0)
    law = (torch.randperm(NODES, generator=torch.Generator().manual_seed(1)) + 1.0) ** -0.8
    ends = torch.multinomial(law, 16 * trained.graph.num_edges, replacement=True, generator=source).view(2, -1)
    ends = ends[:, ends[0] != ends[1]]
    edges = torch.cat([trained.graph.edge_index, ends, ends.flip(0)], 1).unique(dim=1)
    noisy = rade.Graph.from_edge_index(edges, NODES)
    rates = rade.noise.rates_of(noisy, 1.0 - trained.graph.num_edges / noisy.num_edges)
    plain, alike = (trained.accuracy(noisy, way) for way in (rade.Expected(), rade.Denoised(rates)))
    by_degree = trained.accuracy(noisy, rade.Denoised(rates, DegreeEvidence(noisy).trust(0.5)))
    assert by_degree > alike + 0.05 > plain + 0.2
    assert "more of them at nodes of high degree" in Candidate(0.5, 0.0, "degrees", 0.9).how


def test_models_that_hear_neighbors_only_have_no_hidden_features():
    x, _, graph = communities(1.0)
    net = Net(lambda i, o: GATConv(i, o, add_self_loops=False, bias=False))
    model = rade.RADE(net, rule=rade.Constant(0.0, 0.0)).eval()
    with pytest.raises(ValueError, match=r"all zero, so that they tell nothing of edges"):
        hidden(model, x, graph)
    assert [one.name for one in every_evidence(model, x, graph)] == ["features", "common neighbors", "degrees"]


def test_a_graph_without_edges_has_no_evidence():
    model = rade.RADE(Net(LAYERS["GCNConv"]), rule=rade.Constant(0.0, 0.0)).eval()
    x, none = torch.randn(6, 8), torch.empty(2, 0, dtype=torch.long)
    assert every_evidence(model, x, none) == []
    found = estimate_noise(model, x, none, labels=torch.zeros(6, dtype=torch.long), rows=torch.arange(6), by_edge=[])
    assert found.rates == rade.Rates(0.0, 0.0)


def test_common_neighbors_need_no_features():
    """Sixty groups of ten in which everybody knows everybody: the graph alone tells most spurious edges."""
    group = torch.arange(600) // 10
    low, high = torch.triu_indices(600, 600, 1)
    inside = group[low] == group[high]
    graph = undirected(list(zip(low[inside].tolist(), high[inside].tolist())), 600)
    noisy = Corruption(add=1.0, seed=2).of(graph)
    real = group[noisy.pattern.target] == group[noisy.pattern.source]
    trust = EdgeEvidence.of(noisy, CommonNeighbors(), torch.Generator().manual_seed(0)).trust(0.5)
    assert trust.edges[real].mean() > 0.9
    assert trust.edges[~real].mean() < 0.35
