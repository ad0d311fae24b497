"""Aggregation on noisy graphs: over all noisy versions of small graphs, and in a model's training and inference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GATConv

import rade
from rade.correction import Adjacency
from rade.distribution import Distribution, Rates, Trust
from rade.moments.normalised import Normalised
from rade.testing import GRAPHS
from rade.testing.oracle import AllViews, adjacency, one_hot
from zoo import LAYERS, Net, normal, random_edges, seeded

NOISE = Rates(0.15, 0.1)
AGGREGATORS = {"sum": Normalised.sum, "mean": Normalised.mean_of, "symmetric": Normalised.symmetric}
X, EDGES = normal(40, 8), random_edges(40, 120)


class Noisy:
    """All noisy versions of a clean graph, as one batch of graphs, with their probabilities."""

    def __init__(self, clean: rade.Graph, noise: Rates) -> None:
        self.clean, self.noise, self.views = clean, noise, AllViews(Distribution(clean, noise))
        base = self.views.copies
        self.graph = rade.Graph.from_edge_index(self.views.view.edge_index, base.num_nodes, base.batch)
        n, pattern = clean.num_nodes, self.graph.pattern
        self.real = adjacency(clean)[pattern.target % n, pattern.source % n]

    def mean(self, make, noise: Rates, trust: Trust = Trust()) -> Tensor:  # noqa: B008 - a frozen value
        """The mean matrix of an aggregation that takes the graph to be as noisy as that, [n, n]."""
        eye = one_hot(self.clean)
        found = Distribution(self.graph, Rates(0.0, 0.0), noise=noise, trust=trust)
        out = Adjacency(self.graph, found).aggregate(make(self.graph, torch.double), self.views.repeat(eye))
        return self.views.mean(out.view(self.views.count, *eye.shape))


def clean_matrix(graph: rade.Graph, make) -> Tensor:
    return Adjacency(graph).aggregate(make(graph, torch.double), one_hot(graph))


@pytest.mark.parametrize("noise", [NOISE, Rates(0.0, 0.2), Rates(0.4, 0.0)], ids=str)
@pytest.mark.parametrize("name", ["path", "star", "near-clique", "two-components", "batch"])
def test_sums_are_unbiased(name, noise):
    noisy, target = Noisy(GRAPHS[name], noise), clean_matrix(GRAPHS[name], Normalised.sum)
    torch.testing.assert_close(noisy.mean(Normalised.sum, noise), target, rtol=0, atol=1e-10)
    assert float((noisy.mean(Normalised.sum, Rates(0.0, 0.0)) - target).abs().max()) > 0.05


def test_sums_are_unbiased_with_trust():
    """Real edges weigh 0.8, spurious ones 0.3."""
    noisy = Noisy(GRAPHS["path"], NOISE)
    trust = Trust(0.3 + 0.5 * noisy.real.double(), spurious=0.3, real=0.8)
    found = noisy.mean(Normalised.sum, NOISE, trust)
    torch.testing.assert_close(found, clean_matrix(GRAPHS["path"], Normalised.sum), rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", AGGREGATORS.values(), ids=list(AGGREGATORS))
@pytest.mark.parametrize("name", ["path", "cycle-chord", "batch"])
def test_nearer_to_the_clean_mean_than_plain(make, name):
    """Normalisations leave a bias, which is smaller."""
    noisy, clean = Noisy(GRAPHS[name], NOISE), clean_matrix(GRAPHS[name], make)
    denoised, plain = (noisy.mean(make, noise) - clean for noise in (NOISE, Rates(0.0, 0.0)))
    assert denoised.square().mean() < plain.square().mean()


def model(name: str = "GCNConv", **options: object) -> rade.RADE:
    return rade.RADE(seeded(lambda: Net(LAYERS[name])), rule=rade.Constant(0.0, 0.0), **options).eval()


@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GraphConv"])
def test_training_and_inference_know_the_noise_of_the_data(name):
    """At rates 0 the only view is the graph."""
    noise = Rates(0.1, 0.02)
    net = model(name, noise=noise)
    torch.testing.assert_close(net(X, EDGES), model(name, inference=rade.Denoised(noise))(X, EDGES))
    torch.testing.assert_close(net.train()(X, EDGES), net.eval()(X, EDGES))
    assert not torch.allclose(net(X, EDGES), model(name)(X, EDGES))


def test_training_knows_which_edges_are_trusted():
    graph = rade.Graph.from_edge_index(EDGES, 40)
    trust = Trust(0.5 + 0.5 * (normal(graph.pattern.size).abs() > 0.6), spurious=0.6, real=0.9)
    wanted = rade.Denoised(Rates(0.1, 0.02), trust)
    net = model(noise=wanted)
    torch.testing.assert_close(net.train()(X, EDGES), model().by(wanted)(X, EDGES))
    torch.testing.assert_close(net.eval()(X, EDGES), model().by(wanted)(X, EDGES))
    with pytest.raises(ValueError, match="trust was found for another graph"):
        net(X, random_edges(40, 90))


def test_no_noise_is_plain_inference():
    net = model()
    assert torch.equal(net.by(rade.Denoised())(X, EDGES), net(X, EDGES))


def test_attention_keeps_its_dropout_in_training_on_the_mean():
    net = seeded(lambda: Net(lambda i, o: GATConv(i, o, dropout=0.6)))
    views = rade.Views(sampling="expected")
    noisy = rade.RADE(net, "ofs", rule=rade.Constant(0.2, 0.2), views=views, noise=Rates(0.0, 0.01)).train()
    assert not torch.equal(noisy(X, EDGES), noisy(X, EDGES))
    assert torch.equal(noisy.eval()(X, EDGES), noisy(X, EDGES))


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        (Rates(0.7, 0.3), r"must add up to less than 1, got p = 0.7 and q = 0.3"),
        (Rates(0.0, 0.5), "leaves no real edge in a graph of density"),
    ],
    ids=["too much", "no edge left"],
)
def test_bad_noise_is_refused_in_a_sentence(noise, sentence):
    with pytest.raises(ValueError, match=sentence):
        model().by(rade.Denoised(noise))(X, EDGES)


def test_other_refusals():
    with pytest.raises(RuntimeError, match=r"model.by\(inference\) is for evaluation"):
        model().train().by(rade.Denoised())(X, EDGES)
    with pytest.raises(TypeError, match=r"noise must be a rade.Rates or a rade.Denoised, got 0.1"):
        model(noise=0.1)
    with pytest.raises(ValueError, match="real edges must weigh at least as much"):
        Trust(1.0, spurious=0.9, real=0.5)
