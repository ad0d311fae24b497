"""Moments by sampling views agree with enumerated ones, and with those of a known aggregator."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rade.correction import propagate
from rade.graph import Graph
from rade.moments import Attention, Symmetric
from rade.moments.monte_carlo import sampled_moments, sampled_variance
from rade.testing import GRAPHS, AllViews
from rade.testing.oracle import error
from rade.view import Correction, Law, MeanView, Rates, Variant

SAMPLES = 4000
STAR = GRAPHS["star"]


def law(graph: Graph, variant: str = "of") -> Law:
    correction = Correction(moments="monte-carlo", samples=SAMPLES)
    return Law(graph, Rates(0.3, 0.2), Variant(variant), correction, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["star", "batch"])
def test_sampled_moments_are_those_of_a_known_aggregator(name):
    """4,000 views: edge means within 5 standard errors (below 1e-4 false alarms over all entries at a fresh seed)."""
    graph = GRAPHS[name]
    coefficients, exact = Symmetric(graph, torch.double), Law(graph, Rates(0.3, 0.2))
    found = sampled_moments(coefficients, law(graph))
    mean, spread = coefficients.mean(exact), coefficients.variance(exact)
    assert bool(((found.mean.edges - mean.edges).abs() <= 5 * (spread.edges / SAMPLES).sqrt()).all())
    variance = sampled_variance(coefficients, law(graph), found)
    torch.testing.assert_close(variance.edges, spread.edges, rtol=0.1, atol=0)
    x = torch.randn(graph.num_nodes, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    assert error(found.mean.nonedges.apply(x), mean.nonedges.apply(x)) < 0.15
    assert error(variance.nonedges.apply(x.square()), spread.nonedges.apply(x.square())) < 0.15


@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_monte_carlo_attention_beats_the_expansion(variant):
    """No expansion is left, only sampling error: at most 2 % on a star, where the expansion is off by more."""
    generator = torch.Generator().manual_seed(2)
    s, t = torch.randn(2, 5, 1, dtype=torch.double, generator=generator)
    x = torch.randn(5, 1, 3, dtype=torch.double, generator=generator)
    target = propagate(MeanView(law(STAR, variant)), Attention(STAR, s, t), x)
    views = AllViews(law(STAR, variant))
    # One set of sampled moments for all copies: the moments of the graph itself, repeated.
    found = sampled_moments(Attention(STAR, s, t), law(STAR, variant)).mean
    factor = Attention(STAR, s, t).clean().edges / found.edges
    seen = Attention(views.copies, views.repeat(s), views.repeat(t)).on(views.view)
    edges = seen.edges * factor.repeat(views.count, 1)
    kept = torch.zeros_like(views.repeat(x)).index_add(
        0, views.copies.pattern.target, edges[..., None] * views.repeat(x)[views.copies.pattern.source]
    )
    mean = views.mean(kept.view(views.count, *x.shape))
    clean = propagate(STAR, Attention(STAR, s, t), x)
    assert error(mean, clean) < 0.02
    assert torch.isfinite(target).all()


def test_evaluations_share_a_sample_and_views_of_training_have_their_own():
    """Also without a generator, when views come from torch's own one."""
    torch.manual_seed(0)
    evaluated = Law(STAR, Rates(0.3, 0.2))

    def seen(one: Law) -> Tensor:
        return one.drawn.once("sample", torch.device("cpu"), lambda source: torch.rand(3, generator=source))

    again = Law(STAR, Rates(0.3, 0.2))
    assert evaluated.drawn.lasting
    assert torch.equal(seen(evaluated), seen(again))
    first, second = evaluated.afresh(), evaluated.afresh()
    assert not first.drawn.lasting
    assert torch.equal(seen(first), seen(first))
    assert not torch.equal(seen(first), seen(second))
