"""Whole layers keep their expectation: the mean over all views of a small graph is what evaluation computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from core.driving import AllDraws, Given, given, on_views
from rade import Rates, Views
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from zoo import ATTENTION, LAYERS, seeded

IN, OUT = 3, 2
RATES, DROPS = Rates(0.3, 0.2), Rates(0.4, 0.0)
TAIL = given([(0, 1), (1, 2), (2, 0), (2, 3)])
SHORT = given([(0, 1), (1, 2)], 3)
GRAPHS = {
    "tail": TAIL,
    "one-way": given([(0, 1), (1, 2), (2, 0), (3, 0), (0, 3)], both=False),
    "mixed batch": given([(0, 2), (1, 3), (1, 4), (2, 5)], 6, [0, 1, 0, 1, 1, 0]),
}
SEVERAL: dict[str, tuple[Any, int]] = {  # layers of several steps, and how many
    "APPNP": (lambda: pyg.APPNP(2, 0.2), 2),
    "SGConv": (lambda: pyg.SGConv(IN, OUT, K=2), 2),
    "TAGConv": (lambda: pyg.TAGConv(IN, OUT, K=3), 3),
    "SSGConv": (lambda: pyg.SSGConv(IN, OUT, alpha=0.2, K=2), 2),
    "MixHopConv": (lambda: pyg.MixHopConv(IN, OUT, powers=[1, 2]), 2),
    "ChebConv": (lambda: pyg.ChebConv(IN, OUT, K=3), 2),
}
WEIGHTED = ("GCNConv", "GCNConv-no-loops", "GCNConv-sum", "GraphConv", "GraphConv-mean", "SGConv")
variants = pytest.mark.parametrize("variant", ["of", "ofs"])


def check(
    patch: Any, layer: Any, data: Given, rates: Rates, draws: int, variant: str, *edges: Tensor, exact: float = 1e-8
) -> None:
    """All outcomes of so many views: the mean in training, and what evaluation computes; RADE-OF is PyG there."""
    plain, x = layer.double(), normal(data.nodes, IN)
    trained, context = on_views(plain, rates, variant=variant)
    everything = AllDraws(data, rates, draws)
    mean = everything.mean(patch, trained, context, x, *edges)
    with context.running(data.batch):
        evaluated = trained.eval()(x, data.edge_index, *edges).detach()
    assert error(mean, evaluated) <= exact
    assert everything.drawn == draws
    if variant == "of":
        assert error(evaluated, plain(x, data.edge_index, *edges).detach()) <= 1e-12
    elif rates.q:
        assert error(evaluated, plain(x, data.edge_index, *edges).detach()) > 1e-3  # additions stay


@variants
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", [*LAYERS, *ATTENTION])
def test_the_mean_over_all_views_is_what_evaluation_computes(monkeypatch, name, graph, variant):
    """Up to 64 views of each graph; attention is exact up to its lattice."""
    if name.startswith("ChebConv") and graph == "one-way":
        pytest.skip("by pairs of views")
    rates = DROPS if graph == "one-way" else RATES
    layer, exact = seeded(lambda: (LAYERS | ATTENTION)[name](IN, OUT)), 1e-4 if name in ATTENTION else 1e-8
    check(monkeypatch, layer, GRAPHS[graph], rates, 1, variant, exact=exact)


@variants
@pytest.mark.parametrize("name", WEIGHTED)
def test_edge_weights(monkeypatch, name, variant):
    """Different in both directions, of both signs where degrees are not weighted."""
    weight = normal(TAIL.edge_index.shape[1], seed=1)
    weight = weight if "sum" in name or "Graph" in name else weight.exp()
    check(monkeypatch, seeded(lambda: LAYERS[name](IN, OUT)), TAIL, RATES, 1, variant, weight, exact=1e-7)


@variants
@pytest.mark.parametrize("name", SEVERAL)
def test_layers_of_several_steps(monkeypatch, name, variant):
    """A view for each: all 8² or 8³ outcomes on three nodes, additions among them."""
    build, steps = SEVERAL[name]
    check(monkeypatch, seeded(build), SHORT, RATES, steps, variant)


class Two(torch.nn.Module):
    """Two linear layers, or the same one twice."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        self.first = pyg.GCNConv(IN, IN, bias=False)
        self.second = self.first if same else pyg.GCNConv(IN, IN, bias=False)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out: Tensor = self.second(self.first(x, edge_index), edge_index)
        return out


@variants
@pytest.mark.parametrize("same", [False, True], ids=["two layers", "one layer twice"])
def test_every_call_of_a_layer_has_a_view_of_its_own(monkeypatch, same, variant):
    """All 64² pairs of views; one view for both, as `Views(shared=True)` says, has another mean."""
    net, x = seeded(lambda: Two(same)), normal(4, IN)
    check(monkeypatch, net, TAIL, RATES, 2, variant)
    shared, context = on_views(net, RATES, variant=variant)
    context.setting = replace(context.setting, views=Views(shared=True))
    everything = AllDraws(TAIL, RATES, 1)
    mean = everything.mean(monkeypatch, shared, context, x)
    assert everything.drawn == 1
    assert error(mean, shared.eval()(x, TAIL.edge_index).detach()) > 0.05


def test_views_of_two_layers_are_independent():
    """2,000 passes: inclusions of an edge in two layers are uncorrelated to 5 standard errors (6e-7); seed fixed."""
    net, context = on_views(seeded(lambda: Two(False)), Rates(0.3, 0.2))
    kept = []
    for _ in range(2000):
        with context.running() as present, torch.no_grad():
            net(torch.zeros(4, IN), TAIL.edge_index)
        kept.append([float(view.kept[0]) - 0.7 for view in present.views.values()])
    found = torch.tensor(kept)
    assert abs(float(found.prod(1).mean())) < 5 * 0.21 / 2000**0.5
    assert float(found.mean(0).abs().max()) < 5 * 0.21**0.5 / 2000**0.5


def test_uncorrected_views_are_far_from_evaluation(monkeypatch):
    """The power of these tests: without the correction the bias of a GCN is a fifth and more."""
    plain, x = seeded(lambda: pyg.GCNConv(IN, OUT)).double(), normal(4, IN)
    layer, context = on_views(plain, RATES, variant="none")
    mean = AllDraws(TAIL, RATES, 1).mean(monkeypatch, layer, context, x)
    assert error(mean, plain(x, TAIL.edge_index).detach()) > 0.05
