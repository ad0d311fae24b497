"""Module surgery: what conversion keeps, what it refuses, and the way back."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest
import torch
import torch_geometric.nn as pyg

import rade
from rade.wrapper.conversion import SUPPORTED, TWINS, convolutions
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


def test_optimizer_may_be_built_before_or_after():
    """Both optimizers hold the parameters that the wrapped model trains."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    before = torch.optim.SGD(net.parameters(), lr=0.1)
    model = rade.RADE(net)
    after = torch.optim.SGD(model.parameters(), lr=0.1)
    for optimizer in (before, after):
        old = [parameter.detach().clone() for parameter in net.parameters()]
        model.train()(X, EDGES).square().sum().backward()
        optimizer.step()
        assert all(not torch.equal(a, b) for a, b in zip(old, net.parameters()))
    assert len(before.param_groups[0]["params"]) == len(after.param_groups[0]["params"])


def test_rates_are_no_parameters():
    assert len(list(rade.RADE(Net(LAYERS["GCNConv"])).parameters())) == len(list(Net(LAYERS["GCNConv"]).parameters()))


def test_nested_containers_are_searched():
    deep = torch.nn.Sequential(torch.nn.ModuleDict({"a": torch.nn.ModuleList([pyg.GCNConv(8, 8), pyg.GATConv(8, 8)])}))
    rade.convert(deep)
    assert list(convolutions(deep)) == ["0.a.0", "0.a.1"]


def test_a_single_convolution_is_a_model():
    conv = pyg.SAGEConv(8, 3)
    expected = conv(X, EDGES)
    model = rade.RADE(conv).eval()
    torch.testing.assert_close(model(X, EDGES), expected)


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


def test_a_second_wrapper_shares_the_model():
    """RADE-OF and RADE-OFS over one set of parameters."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    of, ofs = rade.RADE(net), rade.RADE(net, "ofs", density=0.2)
    assert of.wrapped is ofs.wrapped
    assert not torch.allclose(of.eval()(X, EDGES), ofs.eval()(X, EDGES))


def test_a_refused_model_is_left_as_it_was():
    for last in (pyg.SuperGATConv(4, 4), pyg.GCNConv(4, 4, cached=True)):
        net = torch.nn.ModuleList([pyg.GCNConv(8, 4), last])
        classes = [type(module) for module in net.modules()]
        with pytest.raises(ValueError):
            rade.convert(net)
        assert [type(module) for module in net.modules()] == classes


def test_public_functions_are_not_hidden_by_modules():
    """A module of the same name would take a function's place in the package once it is imported."""
    for name in ("wrapper.conversion", "wrapper.module", "view.view", "graph.graph"):
        import_module(f"rade.{name}")
    assert all(callable(getattr(rade, name)) for name in rade.__all__)


def test_every_supported_layer_is_named():
    assert {"GATConv", "GCNConv", "GINConv", "GraphConv", "SAGEConv", "SGConv"} < set(SUPPORTED.split(", "))
    assert set(SUPPORTED.split(", ")) == set(rade.nn.__all__) - {"CorrectedConv"}
    assert all(twin.__name__ == layer.__name__ for layer, twin in TWINS.items())


class Mixed(torch.nn.Module):
    """An unsupported layer, called by keyword, between two supported ones."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other, self.last = pyg.GCNConv(8, 6), pyg.SuperGATConv(6, 6), pyg.SAGEConv(6, 6)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = self.conv(x, edge_index).relu()
        x = self.other(x, edge_index=edge_index).relu()
        return self.head(self.last(x, edge_index))


def test_without_strict_unsupported_layers_stay_on_the_clean_graph():
    net = seeded(Mixed)
    plain = copy.deepcopy(net).eval()
    model = rade.RADE(net, strict=False)
    seen: list[object] = []
    net.other.register_forward_hook(lambda _, args, kwargs, out: seen.append(kwargs["edge_index"]), with_kwargs=True)
    loss = torch.nn.functional.cross_entropy(model.train()(X, EDGES), torch.arange(20) % 3)
    loss.backward()
    model.adapt(X, EDGES)
    torch.testing.assert_close(model.eval()(X, EDGES), plain(X, EDGES))
    assert type(net.other) is pyg.SuperGATConv
    assert len(seen) == 3
    assert all(edges is EDGES for edges in seen)
    given = rade.Graph.from_edge_index(EDGES, 20)
    torch.testing.assert_close(model(X, given), plain(X, EDGES))


@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.SGConv])
def test_an_aggregation_without_moments_is_refused_by_every_layer(layer):
    """Once a GCNConv that takes the maximum was summed in silence."""
    net = pyg.Sequential("x, edge_index", [(layer(4, 3, aggr="max"), "x, edge_index -> x")])
    with pytest.raises(ValueError, match=r"aggr='max'.* is not supported on random views; use aggr='add' or 'sum'"):
        rade.convert(net)


def test_what_was_built_with_a_refused_option_stays_clean_if_not_strict():
    """A supported kind of layer that takes the maximum: refused, or left on the clean graph, and `check` says which."""
    net = torch.nn.ModuleList([pyg.SAGEConv(4, 4), pyg.SAGEConv(4, 4, aggr="max")])
    with pytest.raises(ValueError, match=r"layer '1': SAGEConv\(aggr='max'\) is not supported"):
        rade.convert(net)
    assert [type(layer) for layer in net] == [pyg.SAGEConv] * 2
    rade.convert(net, strict=False)
    assert [type(layer) for layer in net] == [rade.nn.SAGEConv, pyg.SAGEConv]
