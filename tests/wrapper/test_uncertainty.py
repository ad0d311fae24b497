"""`model.uncertainty(...)`: spread of logits over views and predictions that change, against direct sampling."""

from __future__ import annotations

import copy

import pytest
import torch
from rade.view.sampling import draw
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv, global_add_pool

import rade
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 30
X, EDGES = normal(NODES, 8), random_edges(NODES, 60)
RATES = {"rule": rade.Constant(0.4, 0.3)}


def model_of(net: nn.Module, variant: str = "of", **options: object) -> rade.RADE:
    model = rade.RADE(net, variant, generator=torch.Generator().manual_seed(0), **(RATES | options))
    model.train()(X, EDGES)
    return model.eval()


@pytest.mark.parametrize("layer", ["SAGEConv-sum", "GINConv", "GraphConv"])
@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_one_layer_has_the_closed_form(layer, variant):
    """Logits linear in one sum: 1,000 views give each deviation to 2.2 % (one standard error)."""
    net = seeded(lambda: nn.ModuleList([LAYERS[layer](8, 3)])[0])
    found = model_of(net, variant).uncertainty(X, EDGES, views=1000)
    assert found.note == ""
    torch.testing.assert_close(found.std, found.sampled_std, rtol=0.12, atol=1e-6)


def test_shares_are_those_of_the_views():
    """The same generator, the views drawn by hand."""
    model = model_of(seeded(lambda: Net(LAYERS["GCNConv"])))
    found = model.uncertainty(X, EDGES, views=20)
    again = model.uncertainty(X, EDGES, views=20)
    assert torch.equal(found.flips, again.flips)
    law = model.law(model.graph_of(X, EDGES)[1])
    with torch.no_grad():
        clean = model(X, EDGES)
        seen = torch.stack([model.wrapped(X, draw(law)) for _ in range(20)])
    torch.testing.assert_close(found.logits, clean)
    torch.testing.assert_close(found.flips, (seen.argmax(2) != clean.argmax(1)).float().mean(0))
    torch.testing.assert_close(found.sampled_std, seen.std(0), rtol=1e-4, atol=1e-6)
    assert found.std.shape == found.sampled_std.shape == (NODES, 3)


def test_the_order_of_fragility():
    found = model_of(seeded(lambda: Net(LAYERS["GCNConv"]))).uncertainty(X, EDGES, views=20)
    order = found.fragile
    assert sorted(order.tolist()) == list(range(NODES))
    shares = found.flips[order]
    assert bool((shares[:-1] >= shares[1:]).all())
    assert float(shares[0]) > float(shares[-1])
    ties = [k for k in range(NODES - 1) if shares[k] == shares[k + 1]]
    spread = found.sampled_std.amax(1)[order]
    assert ties
    assert all(spread[k] >= spread[k + 1] for k in ties)
    assert str(found).startswith("30 predictions, 20 views: ")


def test_without_noise_nothing_changes():
    model = model_of(seeded(lambda: Net(LAYERS["GCNConv"])))
    found = model.uncertainty(X, EDGES, views=3, rates=rade.Rates(0.0, 0.0))
    assert float(found.flips.max()) == 0
    assert float(found.std.max()) < 1e-3  # the root of rounding
    assert float(found.sampled_std.max()) < 1e-6
    more = model.uncertainty(X, EDGES, views=20, rates=rade.Rates(0.5, 0.5))
    assert float(more.flips.mean()) > 0


def test_nothing_else_is_touched():
    """Modes, gradients, and the stream of views."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    model = model_of(net).train()
    net.head.eval()
    state = model._context.generator.get_state()
    found = model.uncertainty(X, EDGES, views=4)
    assert model.training
    assert not net.head.training
    assert torch.equal(state, model._context.generator.get_state())
    assert not found.std.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = SAGEConv(8, 6, aggr="sum"), nn.Linear(6, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return self.head(global_add_pool(self.conv(x, edge_index), batch))


def test_graphs():
    """Pooled logits, linear in one aggregation."""
    batch = torch.arange(NODES) // 10
    inside = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
    model = rade.RADE(seeded(Pooled), readout=rade.Readout(pool="sum"), **RATES).train()
    model(X, inside, batch)
    found = model.eval().uncertainty(X, inside, batch, views=1000)
    assert found.flips.shape == (3,)
    torch.testing.assert_close(found.std, found.sampled_std, rtol=0.12, atol=1e-6)


class Bent(nn.Module):
    """Two layers side by side: which part of the head belongs to the last one cannot be told."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = GCNConv(8, 4), GCNConv(4, 4), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = self.one(x, edge_index).relu()
        return self.head(torch.cat([first, self.two(first, edge_index)], 1))


def test_without_a_closed_form_the_sampled_one_stands_in_and_is_told():
    found = model_of(seeded(Bent)).uncertainty(X, EDGES, views=8)
    assert "cannot tell the linear head" in found.note
    assert torch.equal(found.std, found.sampled_std)


@pytest.mark.parametrize("task", ["binary", "multilabel", "regression"])
def test_sigmoids_and_regression(task):
    outputs = 1 if task == "binary" else 2
    net = seeded(lambda: Net(LAYERS["SAGEConv"], classes=outputs))
    model = model_of(net, readout=rade.Readout(task=task))
    found = model.uncertainty(X, EDGES, views=16)
    assert found.note == ""
    if task == "regression":
        assert bool(found.flips.isnan().all())
        spread = found.sampled_std.amax(1)[found.fragile]
        assert bool((spread[:-1] >= spread[1:]).all())
        return
    law = model.law(model.graph_of(X, EDGES)[1])
    generator = copy.deepcopy(model._context.generator.get_state())
    with torch.no_grad():
        seen = torch.stack([model.wrapped(X, draw(law)) for _ in range(16)])
        clean = model(X, EDGES)
    model._context.generator.set_state(generator)
    torch.testing.assert_close(found.flips, ((seen > 0) != (clean > 0)).any(2).float().mean(0))


def test_one_view_has_no_deviation():
    with pytest.raises(ValueError, match="at least 2 views, got views = 1"):
        model_of(seeded(lambda: Net(LAYERS["GCNConv"]))).uncertainty(X, EDGES, views=1)
