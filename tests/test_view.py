"""Rates, corrections and views as values: what they refuse, share and say."""

from __future__ import annotations

import copy

import pytest
import torch

from oracle import ISOLATED, PATH
from rade import Correction, Graph, Law, MeanView, Rates, Variant, sample_view
from rade.correction import propagate
from rade.moments import Sum, Symmetric
from rade.view.view import FreshViews

REFUSED = {
    "p = 1": (lambda: Rates(1.0, 0.1), r"p must lie in \[0, 1\), got 1.0; p = 1 removes every edge"),
    "negative p": (lambda: Rates(-0.1, 0.1), r"got -0.1"),
    "p not a number": (lambda: Rates(float("nan"), 0.1), "got nan"),
    "q above 1": (lambda: Rates(0.5, 1.5), r"q must lie in \[0, 1\], got 1.5; it is the probability"),
    "variant": (lambda: Correction("off"), "variant must be one of 'of', 'ofs', 'none', got 'off'"),
    "moments": (lambda: Correction(moments="taylor"), "moments must be one of 'exact', 'delta', 'monte-carlo'"),
    "complement": (lambda: Correction(complement="all"), "complement must be one of 'exact', 'sampled'"),
    "samples": (lambda: Correction(samples=0), "samples must be at least 1, got 0"),
    "small cap": (lambda: Correction(max_correction=0.5), "'auto', 'none' or a number >= 1, got 0.5"),
    "word as cap": (lambda: Correction(max_correction="big"), "'auto', 'none' or a number >= 1, got 'big'"),
    "sampling": (lambda: sample_view(PATH, Rates(), sampling="all"), "sampling must be one of 'bernoulli', 'fixed'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_values_are_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_words_become_variants():
    assert Correction("ofs").variant is Variant.OFS
    assert Correction(Variant.NONE).variant is Variant.NONE


def test_rates_scale_with_the_graph():
    assert Rates(0.5, 0.2).scaled(0.25) == Rates(0.5, 0.05)
    law = Law(Rates(0.5, 0.2), Correction("ofs"))
    assert law.at(Rates(0.1, 0.1)) == Law(Rates(0.1, 0.1), Correction("ofs"))


@pytest.mark.parametrize("kind", ["view", "mean", "fresh"])
def test_a_view_used_as_a_tensor_says_what_to_do(kind):
    law = Law(Rates(0.3, 0.2))
    made = {"view": sample_view(PATH, law.rates), "mean": MeanView(PATH, law), "fresh": FreshViews(PATH, law)}
    with pytest.raises(AttributeError, match=r"only convolutions that RADE converted can take it.*\.graph\.edge_index"):
        made[kind].shape  # noqa: B018
    assert copy.copy(made[kind]).graph is PATH


def test_other_adjacencies_are_refused():
    with pytest.raises(TypeError, match="expected a Graph, View or MeanView to aggregate over, got Tensor"):
        propagate(PATH.edge_index, Sum(PATH, torch.double), torch.ones(5, 1))


def test_layers_that_aggregate_alike_share_their_operator():
    """One operator per view and kind of coefficients; other coefficients or another view build their own."""
    view = sample_view(ISOLATED, Rates(0.3, 0.2), torch.Generator().manual_seed(0))
    x = torch.eye(5).double()
    for coefficients in (Sum(ISOLATED, torch.double), Sum(ISOLATED, torch.double), Symmetric(ISOLATED, torch.double)):
        propagate(view, coefficients, x)
    assert len(view._memo) == 2


def test_inference_of_one_graph_does_not_depend_on_the_view():
    """RADE-OF inference is the clean graph, at any rates."""
    x = torch.eye(5).double()
    clean = propagate(PATH, Symmetric(PATH, torch.double), x)
    for rates in (Rates(0.0, 0.0), Rates(0.9, 0.5)):
        assert torch.equal(propagate(MeanView(PATH, Law(rates)), Symmetric(PATH, torch.double), x), clean)


def test_a_graph_of_one_node():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    x = torch.ones(1, 2).double()
    for variant in Variant:
        view = sample_view(graph, Rates(0.5, 0.5), correction=Correction(variant))
        assert torch.equal(propagate(view, Symmetric(graph, torch.double), x), x)
        assert torch.equal(propagate(view, Sum(graph, torch.double), x), 0 * x)
