"""What `rade.check` tells before any training: what works, what should be known, what does not."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch_geometric.nn import EdgeConv, SAGEConv, TransformerConv

import rade
from zoo import LAYERS, Net, normal, random_edges


def test_check_tells_of_few_labels():
    x, edges = normal(200, 8), random_edges(200, 400)
    for labelled in (torch.arange(9), torch.arange(200) < 9):
        found = rade.check(Net(LAYERS["GCNConv"]), x, edges, labelled=labelled)
        assert found.works
        assert "only 4.5% of the rows are labelled and edges are added" in str(found)
    assert "40 of 200 rows" in str(rade.check(Net(LAYERS["GCNConv"]), x, edges, labelled=torch.arange(40)))
    value = rade.Labelled(torch.arange(40))
    assert "40 of 200 rows" in str(rade.check(Net(LAYERS["GCNConv"]), x, edges, labelled=value))
    wrong = rade.check(Net(LAYERS["GCNConv"]), x, edges, labelled=[1, 2])
    assert not wrong.works
    assert "labelled must be rows (int64 ids or a bool mask) or a rade.Labelled, got list" in str(wrong)
    assert "labelled" not in str(rade.check(Net(LAYERS["GCNConv"]), x, edges))


def test_check_tells_probabilities_and_marks_what_should_be_known():
    class Shares(Net):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index).softmax(1)

    x, edges = normal(200, 8), random_edges(200, 400)
    for net, known in ((Shares, True), (Net, False)):
        found = rade.check(net(LAYERS["GCNConv"]), x, edges)
        (line,) = (line for line in found.lines if line.what == "output")
        assert found.works
        assert ("rows are probabilities" in line.found) == known
        assert line.mark == ("??" if known else "ok")
    few = rade.check(Net(LAYERS["GCNConv"]), x, edges, labelled=torch.arange(9))
    assert [line.what for line in few.lines if line.mark == "??"] == ["labels"]


@pytest.mark.parametrize(
    ("layer", "option"),
    [(partial(SAGEConv, normalize=True), "normalize=True"), (partial(TransformerConv, beta=True), "beta=True")],
)
def test_what_is_not_linear_in_its_sum_is_told(layer, option):
    """Views keep the expectation of sums, and neither of their length nor of a gate."""
    x, edges = normal(40, 8), random_edges(40, 80)
    found = rade.check(Net(layer), x, edges)
    assert found.works
    assert f"only its sum keeps the expectation ({option} is not linear in it)" in str(found)
    assert "keeps the expectation" not in str(rade.check(Net(layer.func), x, edges))
    spread = rade.RADE(Net(layer)).uncertainty(x, edges, views=4)
    assert f"{layer.func.__name__}({option}) is not linear" in spread.note
    assert torch.equal(spread.std, spread.sampled_std)


def test_check_says_how_each_layer_is_corrected_and_why():
    x, edges = normal(40, 8), random_edges(40, 80)
    told = str(rade.check(SAGEConv(8, 3, aggr="max"), x, edges))
    assert "layer (top)" in told
    assert "SAGEConv: by pairs of views (MaxAggregation is no weighted sum with moments)" in told
    assert "by moments" in str(rade.check(SAGEConv(8, 3), x, edges))
    edge = rade.check(EdgeConv(torch.nn.Linear(16, 3)), x, edges)
    assert edge.works
    assert not edge.adapts
    refused = rade.check(EdgeConv(torch.nn.Linear(16, 3)), x, edges, options={"variant": "ofs"})
    assert not refused.works
    assert "use RADE-OF, variant='of'" in str(refused)


def test_check_leaves_the_model_and_the_seed_alone():
    net, state = Net(LAYERS["GCNConv"]), torch.get_rng_state()
    classes = [type(module) for module in net.modules()]
    found = rade.check(net, normal(40, 8), random_edges(40, 80), options={"rule": rade.GradNorm()})
    assert found.works
    assert found.adapts
    assert torch.equal(torch.get_rng_state(), state)
    assert [type(module) for module in net.modules()] == classes
    assert all(parameter.grad is None for parameter in net.parameters())
