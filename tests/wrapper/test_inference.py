"""Predicting: at other rates, by an ensemble, and on graphs that are noisy themselves."""

from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv

import rade
from rade.correction import Adjacency
from rade.distribution import Distribution, Rates, Trust
from rade.moments.normalised import Normalised
from rade.testing import GRAPHS
from rade.testing.oracle import AllViews, adjacency, one_hot
from zoo import EDGES, LABELS, LAYERS, NODES, Net, X, random_edges, seeded, training_step, wrapped

GRAPH = rade.Graph.from_edge_index(EDGES, NODES)


def trained(variant: str = "ofs", **options: Any) -> rade.RADE:
    model = wrapped(variant=variant, **options)
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    return model.eval()


def test_rates_of_an_inference():
    """`Expected(rates=...)` predicts at them; training and rate steps have their own; RADE-OF is clean at any."""
    model = trained()
    twice = rade.Expected(rates=model.rates.scaled(2.0))
    other = trained(inference=twice)
    assert other.rates == model.rates
    torch.testing.assert_close(other(X, EDGES), model.by(twice)(X, EDGES))
    assert torch.equal(other.by(rade.Expected(rates=model.rates))(X, EDGES), model(X, EDGES))
    assert torch.equal(*(m.train()(X, EDGES) for m in (model, other)))
    with pytest.raises(RuntimeError, match=r"model.by\(inference\) is for evaluation: call model.eval\(\) first"):
        model.by(twice)(X, EDGES)
    clean = trained("of")
    assert torch.equal(clean.by(rade.Expected(rates=Rates(0.9, 0.5)))(X, EDGES), clean(X, EDGES))


def test_an_ensemble_draws_at_its_rates():
    still = trained("of", inference=rade.Ensemble(size=2, rates=Rates(0.0, 0.0)))
    torch.testing.assert_close(still(X, EDGES), still.wrapped(X, GRAPH))
    assert not torch.allclose(still.by(rade.Ensemble(2, rates=Rates(0.5, 0.1)))(X, EDGES), still(X, EDGES))


def test_who_trains_on_the_mean_can_still_look_at_views():
    model = trained(rule=rade.Constant(0.5, 0.5), views=rade.Views(sampling="expected"))
    assert model.uncertainty(X, EDGES, views=8).sampled_std.max() > 0
    assert model.noise_report(X, EDGES, views=8).sampled > 0
    assert not torch.equal(model.by(rade.Ensemble(2))(X, EDGES), model(X, EDGES))


@pytest.mark.parametrize("noise", [Rates(0.15, 0.1), Rates(0.0, 0.2), Rates(0.4, 0.0)], ids=str)
@pytest.mark.parametrize("name", ["path", "star", "near-clique", "two-components", "batch"])
def test_denoised_sums_are_unbiased(name, noise):
    """All noisy versions of a clean graph as one batch; also where real edges weigh 0.8 and spurious ones 0.3."""
    clean, none = GRAPHS[name], Rates(0.0, 0.0)
    views, n, eye = AllViews(Distribution(clean, noise)), clean.num_nodes, one_hot(clean)
    graph = rade.Graph.from_edge_index(views.view.edge_index, views.copies.num_nodes, views.copies.batch)
    real = adjacency(clean)[graph.pattern.target % n, graph.pattern.source % n]
    trust = Trust(0.3 + 0.5 * real.double(), spurious=0.3, real=0.8)

    def away(noise: Rates, trust: Trust) -> float:
        over = Adjacency(graph, Distribution(graph, none, noise=noise, trust=trust))
        out = over.aggregate(Normalised.sum(graph, torch.double), views.repeat(eye))
        return float((views.mean(out.view(views.count, n, n)) - adjacency(clean).double()).abs().max())

    assert max(away(noise, Trust()), away(noise, trust)) < 1e-10
    assert away(none, Trust()) > 0.05


def still(name: str = "GCNConv", **options: Any) -> rade.RADE:
    """At rates 0 the only view is the graph."""
    return wrapped(seeded(lambda: Net(LAYERS[name])), rule=rade.Constant(0.0, 0.0), **options).eval()


@pytest.mark.parametrize("trusting", [False, True], ids=["all alike", "trust"])
@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GraphConv"])
def test_training_and_inference_know_the_noise_of_the_data(name, trusting):
    weights = 0.5 + 0.5 * (torch.arange(GRAPH.pattern.size) % 3 > 0)
    wanted = rade.Denoised(Rates(0.1, 0.02), *[Trust(weights, spurious=0.6, real=0.9)] * trusting)
    model, expected = still(name, noise=wanted), still(name).by(wanted)(X, EDGES)
    for found in (model(X, EDGES), model.train()(X, EDGES), still(name, inference=wanted)(X, EDGES)):
        torch.testing.assert_close(found, expected)
    plain = still(name)
    assert not torch.allclose(expected, plain(X, EDGES))
    assert torch.equal(plain.by(rade.Denoised())(X, EDGES), plain(X, EDGES))
    if trusting:
        with pytest.raises(ValueError, match="trust was found for another graph"):
            model(X, random_edges(40, 90))


def test_attention_keeps_its_dropout_in_training_on_the_mean():
    net, views = seeded(lambda: Net(lambda i, o: GATConv(i, o, dropout=0.6))), rade.Views(sampling="expected")
    noisy = wrapped(net, "ofs", rule=rade.Constant(0.2, 0.2), views=views, noise=Rates(0.0, 0.01)).train()
    assert not torch.equal(noisy(X, EDGES), noisy(X, EDGES))
    assert torch.equal(noisy.eval()(X, EDGES), noisy(X, EDGES))
