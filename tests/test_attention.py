"""Attention as a user meets it: GATConv against PyG at any scores, large steps, empty graphs."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade import RADE, Constant, Correction, Variant


def random_edges(nodes: int, edges: int, seed: int = 0) -> Tensor:
    pairs = torch.randint(nodes, (2, 2 * edges), generator=torch.Generator().manual_seed(seed))
    low, high = pairs.amin(0), pairs.amax(0)
    key = torch.unique((low * nodes + high)[low != high])[:edges]
    return torch.stack([torch.cat([key // nodes, key % nodes]), torch.cat([key % nodes, key // nodes])])


class Net(torch.nn.Module):
    """One PyG layer, as a model to wrap."""

    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


def test_scores_that_underflow_together_agree_with_pyg():
    """All weights 1, edges 0–1 and 2–3, x = 1, 2, 800, 801: relative to the graph's largest the first two vanish."""
    conv = pyg.GATConv(1, 1, bias=False)
    for parameter in conv.parameters():
        torch.nn.init.ones_(parameter)
    x, edge_index = torch.tensor([[1.0], [2.0], [800.0], [801.0]]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    plain = conv(x, edge_index)
    model = RADE(Net(conv))
    torch.testing.assert_close(model.eval()(x, edge_index), plain)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("loops", [False, True])
def test_inference_is_the_plain_layer_at_any_scale(scale, loops):
    torch.manual_seed(0)
    conv, edge_index = pyg.GATConv(8, 4, heads=2, add_self_loops=loops), random_edges(300, 600)
    x = scale * torch.randn(300, 8)
    plain = conv(x, edge_index)
    torch.testing.assert_close(RADE(Net(conv)).eval()(x, edge_index), plain, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("variant", Variant)
def test_features_of_a_large_scale_train(variant):
    """Finite values and gradients, and means over non-neighbors within the range of the messages."""
    torch.manual_seed(0)
    conv, edge_index = pyg.GATConv(8, 4, heads=2), random_edges(80, 160)
    out = RADE(Net(conv), variant)(1e3 * torch.randn(80, 8), edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert float(out.detach().abs().max()) <= 1e6
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)


def test_a_wild_learning_rate_stays_finite():
    """PyG's GAT with Adam at lr 0.5: scores grow to hundreds within a few steps."""
    torch.manual_seed(0)
    x, y, edge_index = torch.randn(60, 8), torch.randint(3, (60,)), random_edges(60, 120)
    model = RADE(pyg.GAT(8, 16, 2, 3, heads=2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
        loss.backward()
        optimizer.step()
        assert bool(loss.isfinite())
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_a_graph_without_nodes(moments):
    model = RADE(Net(pyg.GATConv(3, 2)), correction=Correction(moments=moments), rule=Constant(p=0.5, rho=0.5))
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert model.train()(torch.zeros(0, 3), nothing).shape == (0, 2)
    assert model.eval()(torch.zeros(0, 3), nothing).shape == (0, 2)
