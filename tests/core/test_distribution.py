"""Rates, variants, corrections and views as values: what they refuse, how they compare, print and travel."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import torch

import rade
from rade import Correction, Graph, Rates, Variant, Views
from rade.correction import Adjacency
from rade.distribution import Distribution, Trust
from rade.moments import Normalised
from rade.moments.degrees import Integral
from rade.nn import GCNConv
from rade.testing.aggregators import normal
from rade.testing.oracle import GRAPHS, error, undirected
from rade.views import draw

PATH, ISOLATED = GRAPHS["path"], GRAPHS["isolated"]
REFUSED = {
    "p = 1": (lambda: Rates(1.0, 0.1), r"p must lie in \[0, 1\), got 1.0; p = 1 removes every edge"),
    "negative p": (lambda: Rates(-0.1, 0.1), r"got -0.1"),
    "p not a number": (lambda: Rates(float("nan"), 0.1), "got nan"),
    "q above 1": (lambda: Rates(0.5, 1.5), r"q must lie in \[0, 1\], got 1.5; it is the probability"),
    "variant": (lambda: Variant("off"), "variant must be one of 'of', 'ofs', 'none', got 'off'"),
    "moments": (lambda: Correction(moments="taylor"), "moments must be one of 'exact', 'delta'"),
    "by": (lambda: Correction(by="views"), "by must be one of 'moments', 'pairs', got 'views'"),
    "small cap": (lambda: Correction(cap=0.5), "'auto', 'none' or a number >= 1, got 0.5"),
    "word as cap": (lambda: Correction(cap="big"), "'auto', 'none' or a number >= 1, got 'big'"),
    "sampling": (lambda: Views(sampling="all"), "sampling must be one of 'bernoulli', 'fixed', 'expected', got 'all'"),
    "shared": (lambda: Views(shared="yes"), "shared must be True or False, got 'yes'"),
    "directed": (lambda: Views(directed=1), "directed must be True or False, got 1"),
    "trust": (lambda: Trust(spurious=2.0), "real edges must weigh at least as much as spurious ones.*got 1 and 2"),
    "trust of another graph": (lambda: Trust(edges=torch.ones(3)).check(PATH), "expected 8 values for edges, got"),
}
VALUES: dict[str, tuple[Any, Any]] = {  # a value, and one that differs
    "GradNorm": (rade.GradNorm(p=0.2, penalty=0.1), rade.GradNorm(p=0.2)),
    "Constant": (rade.Constant(0.2, 0.1), rade.Constant(0.2)),
    "NoiseRatio": (rade.NoiseRatio(nu=1.0), rade.NoiseRatio()),
    "Views": (Views(shared=True), Views()),
    "Correction": (Correction(cap=2.0, by="pairs"), Correction()),
    "Readout": (rade.Readout(pool="sum"), rade.Readout()),
    "Expected": (rade.Expected(), rade.Expected(rates=Rates(0.1))),
    "Ensemble": (rade.Ensemble(4), rade.Ensemble()),
    "Rates": (Rates(0.5, 0.001), Rates(0.5)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_values_are_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize("name", VALUES)
def test_values_compare_print_and_travel(name):
    """What is printed can be read back."""
    value, other = VALUES[name]
    assert eval(repr(value), {each: getattr(rade, each) for each in VALUES}) == value
    assert value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))
    assert hash(value) == hash(copy.copy(value))
    assert value != other
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, 0.1)


def test_caps_and_scaled_rates():
    assert Correction().limit() == float("inf") == Correction(cap="none").limit(auto=3.0)
    assert (Correction().limit(auto=3.0), Correction(cap=2).limit(auto=3.0)) == (3.0, 2.0)
    assert Rates(0.5, 0.2).scaled(0.25) == Rates(0.5, 0.05)


@pytest.mark.parametrize(("word", "flags"), [("of", "110"), ("ofs", "101"), ("none", "000")])
def test_flags_of_variants(word, flags):
    """corrects, centres, keeps_additions."""
    variant = Variant(word)
    assert [variant.corrects, variant.centres, variant.keeps_additions] == [flag == "1" for flag in flags]


def test_a_distribution_at_other_rates_starts_anew_and_copies_keep_nothing():
    first = Distribution(PATH, Rates(0.3, 0.2), Variant.OFS, Correction(cap=2.0), Views(shared=True))
    Adjacency(PATH, first).aggregate(Normalised.symmetric(PATH, torch.double), normal(5, 2))
    assert first.cache
    moved, view = first.at(Rates(0.1, 0.1)), draw(first)
    assert (moved.rates, moved.variant, moved.correction, moved.views) == (
        Rates(0.1, 0.1), first.variant, first.correction, first.views
    )  # fmt: skip
    others = (moved, copy.deepcopy(first), pickle.loads(pickle.dumps(first)), copy.deepcopy(view).distribution)
    assert not any(other.cache for other in others)
    assert all(torch.equal(other.graph.edge_index, PATH.edge_index) for other in others)


def test_layers_that_aggregate_alike_share_their_sums():
    """One for each view and kind of coefficients; other coefficients or another view have their own."""
    view = draw(Distribution(ISOLATED, Rates(0.3, 0.2)))
    over = Adjacency(ISOLATED, view.distribution, view)
    found = [over.sums(Normalised.sum(ISOLATED, torch.double)) for _ in range(2)]
    assert found[0] is found[1]
    assert over.sums(Normalised.symmetric(ISOLATED, torch.double)) is not found[0]
    assert Adjacency(ISOLATED, view.distribution).sums(Normalised.sum(ISOLATED, torch.double)) is not found[0]


@pytest.mark.parametrize("run", ["inference", "views"])
def test_three_layers_need_one_quadrature(run, monkeypatch):
    """Given an edge, given a non-edge, and for the loops: moments belong to the distribution, not to a layer."""
    calls, weight = [], Integral.weight
    monkeypatch.setattr(Integral, "weight", lambda self, *at: calls.append(at) or weight(self, *at))
    graph = undirected([(0, 1), (1, 2)], 5)  # a new one: what was integrated for a graph is kept with it
    distribution, h = Distribution(graph, Rates(0.3, 0.2), Variant.OFS), torch.ones(5, 3)
    for layer in [GCNConv(3, 3) for _ in range(3)]:
        h = layer(h, Adjacency(graph, distribution, draw(distribution) if run == "views" else None))
    assert len(calls) == 1


def test_inference_is_the_clean_graph_and_for_ofs_the_expected_additions():
    for make in (Normalised.symmetric, Normalised.mean_of):
        coefficients, x = make(ISOLATED, torch.double), torch.eye(5).double()
        clean = Adjacency(ISOLATED).aggregate(coefficients, x)
        of, ofs = (Distribution(ISOLATED, Rates(0.3, 0.2), variant) for variant in (Variant.OF, Variant.OFS))
        assert torch.equal(Adjacency(ISOLATED, of).aggregate(coefficients, x), clean)
        added = coefficients.expected(ofs).nonedges.apply(x)
        assert error(Adjacency(ISOLATED, ofs).aggregate(coefficients, x), clean + added) <= 1e-14


def test_what_was_computed_in_inference_mode_or_with_gradients_serves_training_later():
    graph, x = undirected([(0, 1), (1, 2)], 3), torch.ones(3, 2, requires_grad=True)
    layer = GCNConv(2, 2)
    with torch.inference_mode():
        layer(x, graph)
    layer(x, graph).sum().backward()
    assert x.grad is not None
    for _ in range(2):  # nothing that hangs on the rates' gradients is kept by the graph
        p = torch.tensor(0.3, dtype=torch.double, requires_grad=True)
        Normalised.symmetric(graph, torch.double).mean(Distribution(graph, Rates(p, 0.2))).edges.sum().backward()
        assert p.grad is not None


@pytest.mark.parametrize("variant", Variant)
def test_a_graph_of_one_node(variant):
    graph, x = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1), torch.ones(1, 2).double()
    distribution = Distribution(graph, Rates(0.5, 0.5), variant)
    over = Adjacency(graph, distribution, draw(distribution))
    assert torch.equal(over.aggregate(Normalised.symmetric(graph, torch.double), x), x)
    assert torch.equal(over.aggregate(Normalised.sum(graph, torch.double), x), 0 * x)
