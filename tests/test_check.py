"""What `rade.check` tells before any training: what works, what should be known, what does not."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, SAGEConv, TransformerConv

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


@pytest.mark.parametrize(("net", "told"), [(GATv2Conv, True), (GATConv, False), (GCNConv, False)])
def test_check_tells_where_correction_is_an_estimate(net, told):
    """Scores of pairs of features can be listed up to 2^18 of them."""
    large, small = (rade.check(Net(net), normal(n, 8), random_edges(n, 2 * n)) for n in (600, 100))
    assert large.works
    assert ("correction" in [line.what for line in large.lines]) == told
    assert "correction" not in [line.what for line in small.lines]
    asked = {"correction": rade.Correction(moments="delta")}
    lines = rade.check(Net(net), normal(600, 8), random_edges(600, 1200), options=asked).lines
    assert "correction" not in [line.what for line in lines]


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
    assert f"what {option} makes of it does not" in str(found)
    assert "makes of it" not in str(rade.check(Net(layer.func), x, edges))
    spread = rade.RADE(Net(layer)).uncertainty(x, edges, views=4)
    assert f"{layer.func.__name__}({option}) is not linear" in spread.note
    assert torch.equal(spread.std, spread.sampled_std)
