"""Attention at its edges: heavy and lonely nodes, caps, dropout, derivatives, and scores without moments."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from core.dense_attention import normal, random_graph
from rade import RADE, Constant, Variant
from rade.correction import Adjacency, factors
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments import Attention, Normalised, ScoredAttention
from rade.moments.attention.scores import Attributes, FeatureScores
from rade.testing import GRAPHS
from rade.views import View, draw, sample_view

STAR, PATH = GRAPHS["star"], GRAPHS["path"]


def over(view: View) -> Adjacency:
    return Adjacency(view.graph, view.distribution, view)


@pytest.mark.parametrize(
    ("moments", "cap", "bound"),
    [("exact", "auto", float("inf")), ("delta", "auto", 6.0), ("exact", 2.0, 2.0), ("delta", "none", float("inf"))],
)
def test_factors_stay_below_the_cap(moments, cap, bound):
    """3/(1−p) for the expansion alone; what was cut is reported."""
    coefficients = Attention(STAR, 3 * normal(5, 1), 3 * normal(5, 1, seed=1))
    distribution = Distribution(STAR, Rates(0.5, 0.4), correction=Correction(moments=moments, cap=cap))
    found = factors(coefficients, distribution)
    assert coefficients.cap(distribution) == bound
    assert float(found.edges.max()) <= bound
    assert bool(found.clipped.any()) == (float(found.edges.max()) == bound)


def test_equal_scores_are_the_mean_aggregator():
    """With all scores equal, attention without loops is the mean, whose moments are exact: within 1e-5."""
    distribution = Distribution(PATH, Rates(0.4, 0.2))
    attention, mean = Attention(PATH, normal(5, 1) * 0, normal(5, 1) * 0), Normalised.mean_of(PATH, torch.double)
    x = normal(5, 3)
    torch.testing.assert_close(
        attention.mean(distribution).edges[:, 0], mean.mean(distribution).edges, rtol=1e-5, atol=0
    )
    found, expected = (each.mean(distribution).nonedges for each in (attention, mean))
    torch.testing.assert_close(found.apply(x[:, None])[:, 0], expected.apply(x), rtol=1e-4, atol=1e-5)


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
    clean = Adjacency(PATH).aggregate(Attention(PATH, s, t, self_loops=True), x)
    dropped = Adjacency(copied).aggregate(Attention(copied, *many[:2], self_loops=True, drop=0.5), many[2])
    dropped = dropped.view(count, 5, 1, 3)
    assert float((dropped.mean(0) - clean).abs().max()) <= 0.08 * float(clean.abs().max())
    assert float((dropped[0] - clean).abs().max()) > 0.1 * float(clean.abs().max())


@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_gradients_flow_through_the_correction(moments):
    """Nothing in the forward pass is detached: finite differences in the scores and messages."""
    distribution = Distribution(PATH, Rates(0.3, 0.4), correction=Correction(moments=moments))
    view = draw(distribution, torch.Generator().manual_seed(3))
    inputs = [v.requires_grad_() for v in (0.3 * normal(5, 2), 0.3 * normal(5, 2, seed=1), normal(5, 2, 2, seed=2))]

    def corrected(s: Tensor, t: Tensor, x: Tensor) -> Tensor:
        return over(view).aggregate(Attention(PATH, s, t, self_loops=True), x)

    assert torch.autograd.gradcheck(corrected, inputs, atol=1e-6, fast_mode=True)


def test_a_lonely_node_hears_only_itself():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    x = normal(1, 1, 3)
    for loops, expected in ((True, x), (False, 0 * x)):
        attention = Attention(graph, normal(1, 1), normal(1, 1), self_loops=loops)
        assert torch.equal(Adjacency(graph).aggregate(attention, x), expected)
        seen = over(sample_view(graph, Rates(0.5, 0.5))).aggregate(attention, x)
        torch.testing.assert_close(seen, expected, rtol=2e-5, atol=0)


def test_scores_of_many_pairs_have_coefficients_but_no_moments():
    """600 nodes: 359,400 pairs are too many to list. Views and the clean graph are summed over all the same."""
    graph, (query, key) = random_graph(600, 1200), normal(2, 600, 1, 3)
    scores = FeatureScores(graph, query, key, lambda q, k: (q * k).sum(-1), True, Attributes())
    attention, distribution = ScoredAttention(scores, torch.double), Distribution(graph, Rates(0.5, 0.001))
    assert not attention.has_moments
    assert not attention.is_exact(distribution)
    weights = attention.on(draw(distribution, torch.Generator().manual_seed(0)))
    assert bool((graph.pattern.row_sum(weights.edges) <= 1.0 + 1e-12).all())
    with pytest.raises(
        ValueError, match="have no moments on 600 nodes, where sums over all non-neighbors have no closed"
    ):
        attention.mean(distribution)
    few = FeatureScores(STAR, query[:5], key[:5], lambda q, k: (q * k).sum(-1), True, Attributes())
    assert ScoredAttention(few, torch.double).has_moments


def edges_of(nodes: int, edges: int) -> Tensor:
    return random_graph(nodes, edges).edge_index


def test_scores_that_underflow_together_agree_with_pyg():
    """All weights 1, edges 0–1 and 2–3, x = 1, 2, 800, 801: relative to the graph's largest the first two vanish."""
    conv = pyg.GATConv(1, 1, bias=False)
    for parameter in conv.parameters():
        torch.nn.init.ones_(parameter)
    x, edge_index = torch.tensor([[1.0], [2.0], [800.0], [801.0]]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    plain, model = conv(x, edge_index), RADE(conv)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)
    torch.testing.assert_close(model.eval()(x, edge_index), plain)


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_features_of_any_scale(scale, variant):
    """Finite values and gradients in training, within the range of the messages; evaluation is the plain layer."""
    torch.manual_seed(0)
    conv, edge_index, x = pyg.GATConv(8, 4, heads=2), edges_of(300, 600), scale * torch.randn(300, 8)
    plain, model = conv(x, edge_index), RADE(conv, variant)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert float(out.detach().abs().max()) <= 1e3 * scale
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)
    if variant is not Variant.OFS:
        torch.testing.assert_close(model.eval()(x, edge_index), plain, rtol=1e-4, atol=1e-5 * scale)


def test_a_wild_learning_rate_stays_finite():
    """PyG's GAT with Adam at lr 0.5: scores grow to hundreds within a few steps."""
    torch.manual_seed(0)
    x, y, model = torch.randn(60, 8), torch.randint(3, (60,)), RADE(pyg.GAT(8, 16, 2, 3, heads=2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edges_of(60, 120)), y)
        loss.backward()
        optimizer.step()
        assert bool(loss.isfinite())
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_a_graph_without_nodes(moments):
    model = RADE(pyg.GATConv(3, 2), correction=Correction(moments=moments), rule=Constant(p=0.5, rho=0.5))
    nothing = torch.empty(2, 0, dtype=torch.long)
    assert model.train()(torch.zeros(0, 3), nothing).shape == (0, 2)
    assert model.eval()(torch.zeros(0, 3), nothing).shape == (0, 2)
