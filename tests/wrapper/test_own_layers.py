"""Linear layers inside convolutions that are more than a weight: adapters, hooks, parametrizations, own chains."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations, prune, spectral_norm
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv, SGConv, TAGConv

import rade
from zoo import normal, random_edges, seeded

NODES, WIDE, NARROW = 60, 24, 6
EDGES = random_edges(NODES, 120)
DENSE = normal(NODES, WIDE)
RARE = DENSE * (DENSE > 1)
LABELS = torch.arange(NODES) % NARROW


class Adapter(nn.Linear):
    """Low-rank additions to a weight that is not trained."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.down, self.up = nn.Linear(inputs, 2, bias=False), nn.Linear(2, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x) + self.up(self.down(x))
        return out


class Wrapping(nn.Module):
    """An adapter that holds the layer: neither a weight nor a bias of its own."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.extra = layer, nn.Linear(WIDE, NARROW, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + self.extra(x)
        return out


def replaced(layer: nn.Module) -> nn.Module:
    before = layer.forward
    layer.forward = lambda x: 3 * before(x)  # type: ignore[method-assign]
    return layer


class Frozen(nn.Module):
    """A weight that is no parameter."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.in_features = WIDE
        self.register_buffer("kept", layer.weight.detach().clone())
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.get_buffer("kept"), self.bias)


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, args, out: 2 * out)
    return layer


def pruned(layer: nn.Module) -> nn.Module:
    return prune.l1_unstructured(layer, "weight", 0.5)


CHANGES = {
    "adapter": lambda layer: Adapter(WIDE, NARROW, layer.bias is not None),
    "wrapping": Wrapping,
    "hook": hooked,
    "forward of its own": replaced,
    "frozen": Frozen,
    "scripted": torch.jit.script,
    "pruned": pruned,
    "spectral norm": spectral_norm,
    "parametrized": parametrizations.weight_norm,
}
PLACES = {
    "GCNConv": (lambda: GCNConv(WIDE, NARROW), "lin"),
    "SAGEConv": (lambda: SAGEConv(WIDE, NARROW), "lin_l"),
    "GraphConv": (lambda: GraphConv(WIDE, NARROW), "lin_rel"),
    "SGConv": (lambda: SGConv(WIDE, NARROW, K=2), "lin"),
    "GATConv": (lambda: GATConv(WIDE, NARROW), "lin"),
    "TAGConv": (lambda: TAGConv(WIDE, NARROW, K=2), "lins.0"),
    "GINConv": (lambda: GINConv(nn.Sequential(nn.Linear(WIDE, NARROW), nn.ReLU(), nn.Linear(NARROW, NARROW))), "nn.0"),
}


class Net(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out: Tensor = self.conv(x, edge_index)
        return out


def changed(place: str, change: str) -> Net:
    build, path = PLACES[place]
    conv = build()
    parent, _, name = path.rpartition(".")
    owner = conv.get_submodule(parent)
    setattr(owner, name, CHANGES[change](getattr(owner, name)))
    return Net(conv)


@torch.no_grad()
def distance(one: Tensor, other: Tensor) -> float:
    """Beside the largest number."""
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-3))


def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    cross_entropy(model(x, EDGES), LABELS).backward()
    return {name.removeprefix("wrapped."): parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", PLACES)
def test_what_a_layer_does_is_done(place, change):
    """At inference, on dense and sparse features, and in training at rates of 0, where a view is the graph."""
    plain = seeded(lambda: changed(place, change))
    model = rade.RADE(seeded(lambda: changed(place, change)), rule=rade.Constant(0.0, 0.0))
    expected, found = gradients(plain.train(), DENSE), gradients(model.train(), DENSE)
    assert expected.keys() == found.keys()
    for name in expected:
        assert distance(found[name], expected[name]) < 3e-3, name
    model.eval(), plain.eval()
    for given, x in ((DENSE, DENSE), (RARE.to_sparse_csr(), RARE)):
        assert distance(model(given, EDGES), plain(x, EDGES)) < 1e-5


@pytest.mark.parametrize("place", ["SAGEConv", "GraphConv", "SGConv", "ClusterGCNConv"])
def test_a_lazy_layer_with_a_hook(place):
    """Its first pass is as right as the second."""

    def build() -> Net:
        options = {"K": 2} if place == "SGConv" else {}
        conv = getattr(pyg, place)(-1, NARROW, **options)
        next(layer for layer in conv.children() if isinstance(layer, pyg.Linear)).register_forward_hook(lambda *_: None)
        return Net(conv)

    plain = seeded(build).eval()
    torch.manual_seed(0)
    expected = plain(DENSE, EDGES)
    model = rade.RADE(seeded(build), rule=rade.Constant(0.0, 0.0)).eval()
    torch.manual_seed(0)
    assert distance(model(DENSE, EDGES), expected) < 1e-5


@pytest.mark.parametrize("change", ["adapter", "hook", "pruned"])
@pytest.mark.parametrize("place", PLACES)
def test_rates_adapt(place, change):
    model = rade.RADE(seeded(lambda: changed(place, change)), rule=rade.GradNorm(lr=0.1))
    cross_entropy(model.train()(DENSE, EDGES), LABELS).backward()
    model.adapt(DENSE, EDGES)
    assert 0.1 > abs(model.rates.p - 0.5) > 0.09
