"""Attention at its edges: heavy and lonely nodes, caps, dropout, derivatives, and scores without moments."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from core.dense_attention import normal, random_graph
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


def test_a_heavy_node_on_a_ring():
    """Ring of 50 with one score of 40 and its message 40: training output stays within factors of the clean one."""
    n, i = 50, torch.arange(50)
    graph = Graph.from_edge_index(torch.stack([torch.cat([i, (i + 1) % n]), torch.cat([(i + 1) % n, i])]), n)
    s = torch.zeros(n, 1)
    s[0] = 40.0
    for seed, moments in itertools.product(range(10), ("exact", "delta")):
        distribution = Distribution(graph, Rates(0.5, 0.02), correction=Correction(moments=moments))
        view = draw(distribution, torch.Generator().manual_seed(seed))
        out = over(view).aggregate(Attention(graph, s, 0 * s, self_loops=True), s[..., None])
        assert float(out.abs().max()) <= 6 * 40.0


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
