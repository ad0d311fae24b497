"""Predicting at other rates: for a call, or for good."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import rade
from zoo import LAYERS, Net, normal, random_edges, seeded, training_step

NODES = 30
X, EDGES = normal(NODES, 8), random_edges(NODES, 60)
LABELS = torch.arange(NODES) % 3
GRAPH = rade.Graph.from_edge_index(EDGES, NODES)


def trained(name: str = "GCNConv", variant: str = "ofs", **options: Any) -> rade.RADE:
    net = seeded(lambda: Net(LAYERS[name]))
    model = rade.RADE(net, variant, generator=torch.Generator().manual_seed(0), **options)
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    return model.eval()


def test_at_the_models_own_rates_nothing_changes():
    model = trained()
    assert torch.equal(model.by(rade.Expected(rates=model.rates))(X, EDGES), model(X, EDGES))


class OneSum(torch.nn.Module):
    """A single linear layer of sums: what additions contribute is proportional to q."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = LAYERS["GINConv"](8, 3)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv(x, edge_index)


def test_additions_of_ofs_scale_with_q():
    model = rade.RADE(seeded(OneSum).double(), "ofs", density=GRAPH.density).eval()
    x = X.double()
    clean = rade.revert(copy.deepcopy(model.wrapped))(x, EDGES)
    added = model(x, EDGES) - clean
    half = model.by(rade.Expected(rates=model.rates.scaled(0.5)))(x, EDGES) - clean
    torch.testing.assert_close(half, 0.5 * added)
    torch.testing.assert_close(model.by(rade.Expected(rates=rade.Rates(0.9, model.rates.q)))(x, EDGES) - clean, added)
    others = 1.0 - torch.eye(NODES).double()
    others[EDGES[1], EDGES[0]] = 0.0
    messages = x @ model.wrapped.conv.nn.weight.t()
    torch.testing.assert_close(added, model.rates.q * others @ messages)


def test_of_is_clean_at_any_rates():
    model = trained(variant="of")
    assert torch.equal(model.by(rade.Expected(rates=rade.Rates(0.9, 0.5)))(X, EDGES), model(X, EDGES))


def test_rates_of_an_inference_last():
    """`Expected(rates=...)` predicts at them; training, rate steps and `at` have their own."""
    model = trained()
    twice = rade.Expected(rates=model.rates.scaled(2.0))
    other = trained(inference=twice)
    assert other.rates == model.rates
    torch.testing.assert_close(other(X, EDGES), model.by(rade.Expected(rates=twice.rates))(X, EDGES))
    torch.testing.assert_close(other.by(rade.Expected(rates=model.rates))(X, EDGES), model(X, EDGES))
    assert torch.equal(*(m.train()(X, EDGES) for m in (model, other)))


def test_an_ensemble_draws_at_its_rates():
    still = rade.Ensemble(size=2, rates=rade.Rates(0.0, 0.0))
    model = trained(variant="of", inference=still)
    torch.testing.assert_close(model(X, EDGES), model.wrapped(X, GRAPH))
    assert not torch.allclose(model.by(rade.Ensemble(2, rates=rade.Rates(0.5, 0.1)))(X, EDGES), model(X, EDGES))


def test_at_is_refused_in_training():
    model = trained().train()
    with pytest.raises(RuntimeError, match=r"model.by\(inference\) is for evaluation: call model.eval\(\) first"):
        model.by(rade.Expected(rates=rade.Rates(0.1)))(X, EDGES)


EXPECTED = rade.Views(sampling="expected")


def test_who_trains_on_the_mean_can_still_look_at_views():
    model = trained(variant="ofs", rule=rade.Constant(0.5, 0.5), views=EXPECTED)
    assert model.uncertainty(X, EDGES, views=8).sampled_std.max() > 0
    assert model.noise_report(X, EDGES, views=8).sampled > 0
    assert not torch.equal(model.by(rade.Ensemble(2))(X, EDGES), model(X, EDGES))
