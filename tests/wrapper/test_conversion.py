"""Module surgery: what conversion keeps, what it refuses, and the way back."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg

import rade
from rade.moments.normalised import Normalised
from rade.wrapper.conversion import TWINS
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded

X, EDGES = normal(20, 8), random_edges(20, 40)
EVERY = {**LAYERS, **ATTENTION}


@pytest.mark.parametrize("name", EVERY)
def test_conversion_keeps_the_model(name):
    """The same object, parameters, keys and numbers on a plain edge_index; only the layers' classes differ."""
    net = seeded(lambda: Net(EVERY[name])).eval()
    parameters, keys, expected = list(net.parameters()), list(net.state_dict()), net(X, EDGES)
    converted = rade.convert(net)
    assert converted is net
    assert all(a is b for a, b in zip(parameters, converted.parameters()))
    assert list(converted.state_dict()) == keys
    assert torch.equal(converted(X, EDGES), expected)
    assert all(type(conv).__module__.startswith("rade.nn") for conv in net.convs)


@pytest.mark.parametrize("name", EVERY)
def test_reverting_gives_the_plain_model_back(name):
    """PyG's own classes again, the same numbers, and the way there and back may be repeated."""
    net = seeded(lambda: Net(EVERY[name])).eval()
    classes, expected = [type(module) for module in net.modules()], net(X, EDGES)
    for _ in range(2):
        assert rade.revert(rade.RADE(net)) is net
        assert [type(module) for module in net.modules()] == classes
        assert torch.equal(net(X, EDGES), expected)
    assert rade.revert(rade.convert(net)) is net
    assert [type(module) for module in net.modules()] == classes


def test_revert_keeps_a_model_that_has_a_part_called_wrapped():
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wrapped, self.lin = pyg.GCNConv(8, 4), torch.nn.Linear(4, 2)

    outer = rade.convert(Outer())
    assert rade.revert(outer) is outer
    assert type(outer.wrapped) is pyg.GCNConv


def test_hooks_and_wrapped_weights_stay():
    """Forward hooks fire, spectral norm keeps working."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    calls: list[int] = []
    net.convs[0].register_forward_hook(lambda *_: calls.append(1))
    torch.nn.utils.parametrizations.spectral_norm(net.head)
    model = rade.RADE(net).train()
    model(X, EDGES).sum().backward()
    assert calls == [1]
    assert net.head.parametrizations.weight.original.grad is not None


def test_every_layer_with_moments_is_exported():
    assert {twin.__name__ for twin in TWINS.values()} <= set(rade.nn.__all__)
    assert all(twin.__name__ == layer.__name__ for layer, twin in TWINS.items())


class Mixed(torch.nn.Module):
    """A layer without moments, called by keyword, between two with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other, self.last = pyg.GCNConv(8, 6), pyg.FeaStConv(6, 6), pyg.SAGEConv(6, 6)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.conv(x, edge_index).relu()
        x = self.other(x, edge_index=edge_index).relu()
        return self.head(self.last(x, edge_index))


def test_layers_without_moments_stand_beside_those_with():
    """They draw pairs of views; rates adapt by the last layer, which has moments."""
    net = seeded(Mixed)
    plain = copy.deepcopy(net).eval()
    model = rade.RADE(net, rule=rade.GradNorm())
    torch.nn.functional.cross_entropy(model.train()(X, EDGES), torch.arange(20) % 3).backward()
    model.adapt(X, EDGES)
    assert int(model.rate_state.steps) == 1
    torch.testing.assert_close(model.eval()(X, EDGES), plain(X, EDGES))
    copied = copy.deepcopy(model)
    assert type(copied.wrapped.other) is type(net.other)
    torch.testing.assert_close(copied(X, EDGES), plain(X, EDGES))
    assert rade.revert(model) is net
    assert type(net.other) is pyg.FeaStConv


def test_register_takes_a_layer_of_ones_own():
    """A twin with coefficients, whose sums are PyG's own on the graph and unbiased on views."""

    class Mine(pyg.MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr="sum")
            self.lin = torch.nn.Linear(8, 3)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.propagate(edge_index, x=self.lin(x))

    class Twin(rade.nn.CorrectedConv, Mine):
        def coefficients(self, graph, x):
            return Normalised.sum(graph, x.dtype)

    with pytest.raises(TypeError, match=r"must derive from rade\.nn\.CorrectedConv and from Mine"):
        rade.register(Mine, Mine)
    rade.register(Mine, Twin)
    try:
        plain = seeded(Mine)
        model = rade.RADE(copy.deepcopy(plain), "ofs", generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            drawn = torch.stack([model.train()(X, EDGES) for _ in range(500)]).double()
            away = (drawn.mean(0) - model.eval()(X, EDGES)) / (drawn.std(0) / 500**0.5)
        assert float(away.abs().max()) < 5
        torch.testing.assert_close(rade.revert(copy.deepcopy(model.wrapped))(X, EDGES), plain(X, EDGES))
    finally:
        del TWINS[Mine]
