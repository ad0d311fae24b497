"""Two linear layers: exact with a view for each, biased with one view for both."""

from __future__ import annotations

import pytest
import torch

from oracle import SQUARE_TAIL, AllViews, error, identity, one_hot
from rade.correction import propagate
from rade.nn import GCNConv
from rade.view.view import Correction, FreshViews, Law, MeanView, Rates, Variant, sample_view
from registry import EXACT, normal


@pytest.mark.parametrize("variant", [Variant.OF, Variant.OFS])
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.2), (0.3, 0.0), (0.0, 0.4)])
@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_independent_views_make_two_layers_exact(aggregator, p, q, variant):
    """All 64 × 64 pairs of views of a four-node graph; the bias of one shared view is printed beside."""
    views = AllViews(SQUARE_TAIL, Law(Rates(p, q), Correction(variant)))
    build, eye = aggregator.on(SQUARE_TAIL), one_hot(SQUARE_TAIL)
    hop = propagate(MeanView(SQUARE_TAIL, views.law), build(SQUARE_TAIL, identity), eye)
    matrices = views.aggregate(build, eye)
    pairs = torch.einsum("k,l,kij,ljm->im", views.weight, views.weight, matrices, matrices)
    shared = views.mean(matrices @ matrices)
    bias = (shared - hop @ hop).norm() / (hop @ hop).norm()
    print(f"{aggregator.name}, {variant.value}, p={p}, q={q}: one shared view is off by {100 * bias:.0f} %")
    assert error(pairs, hop @ hop) <= 2 * aggregator.tolerance
    assert p == 0.0 or bias > 0.1


def test_fresh_views_differ_from_layer_to_layer():
    """Two layers with the same weights: a shared view gives A'A'x, fresh ones A'A''x."""
    torch.manual_seed(0)
    conv = GCNConv(4, 4, bias=False).double()
    rates, x = Rates(0.5, 0.3), normal(4, 4)
    draws = torch.Generator().manual_seed(1)
    first, second = (sample_view(SQUARE_TAIL, rates, draws) for _ in range(2))
    fresh = FreshViews(SQUARE_TAIL, Law(rates, generator=torch.Generator().manual_seed(1)))
    assert not torch.equal(first.edge_index, second.edge_index)
    assert error(conv(conv(x, fresh), fresh), conv(conv(x, first), second)) <= 1e-12
