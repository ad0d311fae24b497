"""Two linear layers: exact with a view for each, biased with one view for both."""

from __future__ import annotations

import copy

import pytest
import torch
from rade.view import FreshViews, Law, MeanView, Rates, Variant, sample_view

from looping import looped
from rade.correction import propagate
from rade.nn import GCNConv
from rade.testing import AllViews, undirected
from rade.testing.aggregators import EXACT, normal
from rade.testing.oracle import error, one_hot

SQUARE_TAIL = undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 4)  # 64 views: small enough to enumerate pairs of views


@looped("variant", [Variant.OF, Variant.OFS])
@looped(("p", "q"), [(0.5, 0.2), (0.3, 0.0), (0.0, 0.4)])
@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_independent_views_make_two_layers_exact(aggregator, p, q, variant):
    """All 64 × 64 pairs of views of a four-node graph; the bias of one shared view is printed beside."""
    views = AllViews(Law(SQUARE_TAIL, Rates(p, q), variant))
    build, eye = aggregator.on(SQUARE_TAIL), one_hot(SQUARE_TAIL)
    hop = propagate(MeanView(views.law), aggregator.alone(SQUARE_TAIL), eye)
    matrices = views.aggregate(build, eye)
    pairs = torch.einsum("k,l,kij,ljm->im", views.weight, views.weight, matrices, matrices)
    shared = views.mean(matrices @ matrices)
    bias = (shared - hop @ hop).norm() / (hop @ hop).norm()
    print(f"{aggregator.name}, {variant.value}, p={p}, q={q}: one shared view is off by {100 * bias:.0f} %")
    assert error(pairs, hop @ hop) <= 2 * aggregator.tolerance
    assert p == 0.0 or bias > 0.1


def test_fresh_views_differ_from_layer_to_layer():
    """Two layers with the same weights: a shared view gives A'A'x, fresh ones A'A''x; so does a layer used twice."""
    torch.manual_seed(0)
    one = GCNConv(4, 4, bias=False).double()
    two = copy.deepcopy(one)
    rates, x = Rates(0.5, 0.3), normal(4, 4)
    draws = torch.Generator().manual_seed(1)
    first, second = (sample_view(SQUARE_TAIL, rates, draws) for _ in range(2))
    fresh = FreshViews(Law(SQUARE_TAIL, rates, generator=torch.Generator().manual_seed(1)))
    assert not torch.equal(first.edge_index, second.edge_index)
    assert error(two(one(x, fresh), fresh), two(one(x, first), second)) <= 1e-12
    again = FreshViews(Law(SQUARE_TAIL, rates, generator=torch.Generator().manual_seed(1)))
    assert error(one(one(x, again), again), one(one(x, first), second)) <= 1e-12
