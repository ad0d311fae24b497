"""Attention as a user meets it: GATConv against PyG at any scores, Monte Carlo, caps, dropout, empty graphs."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade import RADE, Constant
from rade.correction import propagate, terms
from rade.graph.graph import Graph
from rade.moments import Attention, Mean
from rade.nn import GATConv
from rade.view.law import Correction, Law, Variant
from rade.view.rates import Rates
from rade.view.sampling import sample, sample_view
from rade.view.view import MeanView


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def random_edges(nodes: int, edges: int, seed: int = 0) -> Tensor:
    pairs = torch.randint(nodes, (2, 2 * edges), generator=torch.Generator().manual_seed(seed))
    low, high = pairs.amin(0), pairs.amax(0)
    key = torch.unique((low * nodes + high)[low != high])[:edges]
    return torch.stack([torch.cat([key // nodes, key % nodes]), torch.cat([key % nodes, key // nodes])])


STAR = Graph.from_edge_index(torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 0, 0, 0, 0]]), 5)
PATH = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]), 5)


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


def test_a_heavy_node_on_a_ring():
    """Ring of 50 with one score of 40 and its message 40: training output stays within factors of the clean one."""
    n, i = 50, torch.arange(50)
    graph = Graph.from_edge_index(torch.stack([torch.cat([i, (i + 1) % n]), torch.cat([(i + 1) % n, i])]), n)
    s = torch.zeros(n, 1)
    s[0] = 40.0
    for seed, moments in itertools.product(range(10), ("exact", "delta")):
        generator = torch.Generator().manual_seed(seed)
        law = Law(graph, Rates(0.5, 0.02), correction=Correction(moments=moments), generator=generator)
        out = propagate(sample(law), Attention(graph, s, 0 * s, self_loops=True), s[..., None])
        assert float(out.abs().max()) <= 6 * 40.0


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


@pytest.mark.parametrize("moments", ["exact", "delta", "monte-carlo"])
def test_a_graph_without_nodes(moments):
    model = RADE(
        Net(pyg.GATConv(3, 2)), correction=Correction(moments=moments, samples=2), rule=Constant(p=0.5, rho=0.5)
    )
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert model.train()(torch.zeros(0, 3), nothing).shape == (0, 2)
    assert model.eval()(torch.zeros(0, 3), nothing).shape == (0, 2)


@pytest.mark.parametrize(("heads", "loops"), [(1, False), (4, True)])
def test_the_mean_over_sampled_views_of_gatconv_is_the_clean_output(heads, loops):
    """1,000 views as copies of one graph: deviations in standard errors have variance 1, and none exceeds 5.

    96 and more entries; the chance that a right implementation fails is below 1e-3, and the seed is fixed.
    """
    torch.manual_seed(1)
    nodes, views = 12, 1000
    conv, edge_index = GATConv(6, 8, heads=heads, add_self_loops=loops).double(), random_edges(nodes, 18)
    x = normal(nodes, 6)
    copies = (edge_index[:, None] + nodes * torch.arange(views)[:, None]).reshape(2, -1)
    graph = Graph.from_edge_index(copies, nodes * views, torch.arange(views).repeat_interleave(nodes))
    view = sample_view(graph, Rates(0.5, 0.05), torch.Generator().manual_seed(0))
    with torch.no_grad():
        out = conv(x.repeat(views, 1), view).view(views, nodes, -1)
        clean = conv(x, Graph.from_edge_index(edge_index, nodes))
    z = (out.mean(0) - clean) / (out.std(0) / views**0.5).clamp(min=1e-9)
    assert float(z.abs().max()) <= 5.0
    assert 0.5 <= float(z.square().mean()) <= 1.7


@pytest.mark.parametrize(
    ("moments", "cap", "bound"),
    [("exact", "auto", float("inf")), ("delta", "auto", 6.0), ("exact", 2.0, 2.0), ("delta", "none", float("inf"))],
)
def test_factors_stay_below_the_cap(moments, cap, bound):
    """3/(1−p) for the expansion alone; what was cut is reported."""
    coefficients = Attention(STAR, 3 * normal(5, 1), 3 * normal(5, 1, seed=1))
    law = Law(STAR, Rates(0.5, 0.4), correction=Correction(moments=moments, cap=cap))
    of = terms(coefficients, law)
    assert coefficients.cap(law) == bound
    assert float(of.edges.max()) <= bound
    assert bool(of.clipped.any()) == (float(of.edges.max()) == bound)


def test_equal_scores_are_the_mean_aggregator():
    """With all scores equal, attention without loops is the mean, whose moments are exact: within 1e-5."""
    law = Law(PATH, Rates(0.4, 0.2))
    attention, mean = Attention(PATH, normal(5, 1) * 0, normal(5, 1) * 0), Mean(PATH, torch.double)
    x = normal(5, 3)
    torch.testing.assert_close(attention.mean(law).edges[:, 0], mean.mean(law).edges, rtol=1e-5, atol=0)
    found, expected = (of.mean(law).nonedges for of in (attention, mean))
    torch.testing.assert_close(found.apply(x[:, None])[:, 0], expected.apply(x), rtol=1e-4, atol=1e-5)


def test_a_sampled_complement_means_the_expansion():
    """20,000 of a handful of non-neighbors per node, seed fixed: within 5 % of the expansion with all of them."""
    coefficients = Attention(PATH, normal(5, 2), normal(5, 2, seed=1), self_loops=True)
    generator = torch.Generator().manual_seed(0)
    many = Correction(complement="sampled", samples=20_000)
    sampled = Law(PATH, Rates(0.3, 0.2), correction=many, generator=generator)
    delta = Law(PATH, Rates(0.3, 0.2), correction=Correction(moments="delta"))
    x = normal(5, 2, 3).abs()
    one, other = (coefficients.mean(law) for law in (sampled, delta))
    torch.testing.assert_close(one.edges, other.edges, rtol=0.05, atol=0.01)
    torch.testing.assert_close(one.loop, other.loop, rtol=0.05, atol=0.01)
    torch.testing.assert_close(one.nonedges.apply(x), other.nonedges.apply(x), rtol=0.05, atol=0.01)
    assert coefficients.cap(sampled) == coefficients.cap(delta) == pytest.approx(3 / 0.7)


def test_attention_dropout_leaves_the_correction_alone():
    """Dropout scales what multiplies messages: averaged over 4,000 masks, one per copy of a graph, it vanishes.

    A mean of 4,000 masks of rate ½ deviates by 1.6 % of a coefficient (one standard error); seed fixed.
    """
    torch.manual_seed(0)
    count = 4000
    edges = (PATH.edge_index[:, None] + 5 * torch.arange(count)[:, None]).reshape(2, -1)
    copied = Graph.from_edge_index(edges, 5 * count, torch.arange(count).repeat_interleave(5))
    s, t, x = normal(5, 1), normal(5, 1, seed=1), normal(5, 1, 3, seed=2)
    many = [v.repeat(count, *[1] * (v.dim() - 1)) for v in (s, t, x)]
    clean = propagate(PATH, Attention(PATH, s, t, self_loops=True), x)
    dropped = propagate(copied, Attention(copied, *many[:2], self_loops=True, drop=0.5), many[2]).view(count, 5, 1, 3)
    assert float((dropped.mean(0) - clean).abs().max()) <= 0.08 * float(clean.abs().max())
    assert float((dropped[0] - clean).abs().max()) > 0.1 * float(clean.abs().max())


@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_gradients_flow_through_the_correction(moments):
    """Nothing in the forward pass is detached: finite differences in the scores and messages."""
    law = Law(PATH, Rates(0.3, 0.4), correction=Correction(moments=moments), generator=torch.Generator().manual_seed(3))
    view = sample(law)
    inputs = [v.requires_grad_() for v in (0.3 * normal(5, 2), 0.3 * normal(5, 2, seed=1), normal(5, 2, 2, seed=2))]

    def corrected(s: Tensor, t: Tensor, x: Tensor) -> Tensor:
        return propagate(view, Attention(PATH, s, t, self_loops=True), x)

    assert torch.autograd.gradcheck(corrected, inputs, check_forward_ad=True, atol=1e-6, fast_mode=True)


def test_expected_additions_are_those_of_the_law():
    """RADE-OFS at inference: the clean output and Σ_nonedges E[α'] x."""
    attention, x = Attention(PATH, normal(5, 1), normal(5, 1, seed=1)), normal(5, 1, 2)
    law = Law(PATH, Rates(0.3, 0.2), Variant.OFS)
    expected = propagate(PATH, attention, x) + attention.mean(law).nonedges.apply(x)
    torch.testing.assert_close(propagate(MeanView(law), attention, x), expected)


def test_a_lonely_node_hears_only_itself():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    x = normal(1, 1, 3)
    for loops, expected in ((True, x), (False, 0 * x)):
        attention = Attention(graph, normal(1, 1), normal(1, 1), self_loops=loops)
        assert torch.equal(propagate(graph, attention, x), expected)
        torch.testing.assert_close(
            propagate(sample_view(graph, Rates(0.5, 0.5)), attention, x), expected, rtol=2e-5, atol=0
        )
