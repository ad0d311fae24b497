"""Module surgery: what conversion keeps, and the way back."""

import copy
import inspect
from functools import partial

import pytest
import torch
import torch_geometric.nn as pyg

import rade
from rade import nn
from rade.moments import Normalised
from rade.wrapper.conversion import TWINS
from zoo import EDGES, EVERY, LABELS, Net, X, adapting, seeded, stacked, training_step

BUILD = EVERY | {  # and without moments
    "FeaStConv": pyg.FeaStConv,
    "EdgeConv": lambda i, o: pyg.EdgeConv(torch.nn.Linear(2 * i, o)),
}


@pytest.mark.parametrize("name", BUILD)
def test_conversion_keeps_the_model_and_reverting_gives_it_back(name):
    """The same object, parameters, keys, signatures and numbers; only the layers' classes differ, and only in between.

    Copies find these classes again.
    """
    net = seeded(lambda: Net(BUILD[name])).eval()
    parameters, keys, expected = list(net.parameters()), list(net.state_dict()), net(X, EDGES)
    classes, signature = [type(module) for module in net.modules()], inspect.signature(net.convs[0].forward)
    for there, back in ((rade.convert, rade.revert), (rade.RADE, rade.revert)):
        converted = there(net)
        assert all(isinstance(conv, nn.CorrectedConv) for conv in net.convs)
        assert inspect.signature(net.convs[0].forward) == signature
        assert all(a is b for a, b in zip(parameters, converted.parameters()))
        assert list(net.state_dict()) == keys
        assert torch.equal(net(X, EDGES), expected)
        copied = copy.deepcopy(converted)
        assert [type(module) for module in copied.modules()] == [type(module) for module in converted.modules()]
        assert torch.equal(copied.eval()(X, EDGES), expected)
        assert back(converted) is net
        assert [type(module) for module in net.modules()] == classes
        assert torch.equal(net(X, EDGES), expected)


class Mine(pyg.MessagePassing):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.propagate(edge_index, x=x)


class Reader(Mine):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        return self.propagate(edge_index, x=x) / (source.numel() + target.numel())


class Twin(rade.nn.CorrectedConv, Mine):
    pass


SUMS = partial(Normalised, a=0.0, b=0.0)


def test_a_layer_is_registered_with_its_coefficients_or_a_twin(monkeypatch):
    """Copies find the class again, which is made of both."""
    for by, why in (
        (Mine, "a twin of Mine derives from"),
        (SUMS(rade.Graph.from_edge_index(EDGES), torch.float), "not callable"),
        (Normalised, "missing 2 required positional arguments"),
        (lambda graph, dtype: graph, "Graph"),
        (Twin, "Twin needs a method coefficients of its own"),
    ):
        with pytest.raises(TypeError, match=why):
            rade.register(Mine, by)
    for layer in (Mine, Reader):
        monkeypatch.setitem(TWINS, layer, nn.SimpleConv)  # undone at the end
        rade.register(layer, SUMS)
    with pytest.raises(TypeError, match=r"forward reads its edge_index, .* compute it in message\(\)"):
        rade.RADE(Reader()).train()(X, EDGES)
    model = copy.deepcopy(rade.RADE(Mine(), "ofs"))
    assert not torch.equal(model.train()(X, EDGES), model(X, EDGES))
    assert "by moments" in str(rade.check(Mine(), X, EDGES))
    for by, how in ((SUMS, "by pairs"), (Normalised.mean_of, "by moments")):  # a mean has coefficients of means
        rade.register(Mine, by)
        assert how in str(rade.check(Mine(aggr="mean"), X, EDGES))


@pytest.mark.parametrize("build", [pyg.SAGEConv, nn.SAGEConv])
def test_layers_that_are_put_into_a_wrapped_model_are_on_views(build):
    """A new last layer for another task; from the next `train` or `eval` on."""
    model = rade.RADE(Net(pyg.GCNConv), "ofs", density=0.1)
    model.convs[0], model.convs[1] = pyg.SAGEConv(8, 6).eval(), build(6, 6)
    model.train()
    model.convs[0].eval()
    assert not torch.equal(model(X, EDGES), model(X, EDGES))
    additions = model.eval()(X, EDGES)
    with pytest.warns(UserWarning, match="predictions change"):
        assert not torch.allclose(rade.revert(model)(X, EDGES), additions)


def test_layers_whose_class_has_no_source():
    """Typed into a notebook, or made where a parameter of the layer's own is parametrized."""
    net = Net(type("Typed", (pyg.FeaStConv,), {}))
    net.convs[0] = torch.nn.utils.parametrizations.weight_norm(pyg.GATConv(8, 6), "att_src")
    expected, model = net.eval()(X, EDGES), rade.RADE(net)
    assert not torch.equal(model.train()(X, EDGES), model(X, EDGES))
    assert torch.equal(copy.deepcopy(model).eval()(X, EDGES), expected)


def test_rates_adapt_by_the_last_layer_although_one_before_it_has_no_moments():
    model = adapting(stacked(pyg.GCNConv(8, 6), pyg.FeaStConv(6, 6), pyg.SAGEConv(6, 3)))
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    assert int(model.rate_state.steps) == 1
