"""Rates, corrections, laws and views as values: what they refuse, share, remember and say."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from rade.graph.constant import Matrix
from rade.moments.inverse import Integral
from rade.view import FreshViews, draw, sample

from rade import Adjacency, Correction, Graph, Law, MeanView, Rates, Variant, View, Views, sample_view
from rade.correction import propagate
from rade.moments import Mean, Sum, Symmetric
from rade.nn import GCNConv
from rade.testing import GRAPHS, undirected
from rade.testing.oracle import error

PATH, ISOLATED = GRAPHS["path"], GRAPHS["isolated"]
EYE = torch.eye(5).double()

REFUSED = {
    "p = 1": (lambda: Rates(1.0, 0.1), r"p must lie in \[0, 1\), got 1.0; p = 1 removes every edge"),
    "negative p": (lambda: Rates(-0.1, 0.1), r"got -0.1"),
    "p not a number": (lambda: Rates(float("nan"), 0.1), "got nan"),
    "q above 1": (lambda: Rates(0.5, 1.5), r"q must lie in \[0, 1\], got 1.5; it is the probability"),
    "variant": (lambda: Law(PATH, Rates(), "off"), "variant must be one of 'of', 'ofs', 'none', got 'off'"),
    "moments": (lambda: Correction(moments="taylor"), "moments must be one of 'exact', 'delta', 'monte-carlo'"),
    "complement": (lambda: Correction(complement="all"), "complement must be one of 'exact', 'sampled'"),
    "samples": (lambda: Correction(samples=0), "samples must be at least 1, got 0"),
    "small cap": (lambda: Correction(cap=0.5), "'auto', 'none' or a number >= 1, got 0.5"),
    "word as cap": (lambda: Correction(cap="big"), "'auto', 'none' or a number >= 1, got 'big'"),
    "sampling": (lambda: Views(sampling="all"), "sampling must be one of 'bernoulli', 'fixed', 'expected', got 'all'"),
    "shared": (lambda: Views(shared="yes"), "shared must be True or False, got 'yes'"),
    "directed": (lambda: Views(directed=1), "directed must be True or False, got 1"),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def law(graph: Graph = PATH, variant: str = "of", **options) -> Law:
    return Law(graph, Rates(0.3, 0.2), Variant(variant), generator=seeded(), **options)


@pytest.mark.parametrize("case", REFUSED)
def test_bad_values_are_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_values_compare_by_value_and_laws_by_identity():
    assert Correction(cap=2.0) == Correction(cap=2.0) != Correction()
    assert Views(shared=True) == Views(shared=True) != Views()
    assert Rates(0.5, 0.2).scaled(0.25) == Rates(0.5, 0.05)
    assert law() != law()
    assert Correction().limit() == float("inf") == Correction(cap="none").limit(auto=3.0)
    assert (Correction().limit(auto=3.0), Correction(cap=2).limit(auto=3.0)) == (3.0, 2.0)


@pytest.mark.parametrize(("word", "flags"), [("of", "110"), ("ofs", "101"), ("none", "000")])
def test_flags_of_variants(word, flags):
    """corrects, centres, keeps_additions."""
    variant = law(variant=word).variant
    assert variant is Variant(word)
    assert [variant.corrects, variant.centres, variant.keeps_additions] == [flag == "1" for flag in flags]


def test_a_law_moves_to_other_rates_and_graphs_with_a_new_memo():
    first = law(variant="ofs", correction=Correction(cap=2.0), views=Views(shared=True))
    first.memo.once("a", lambda: 1)
    for other in (first.at(Rates(0.1, 0.1)), first.on(ISOLATED)):
        assert (other.variant, other.correction, other.views) == (Variant.OFS, Correction(cap=2.0), Views(shared=True))
        assert other.generator is first.generator
        assert len(other.memo) == 0
    assert first.at(Rates(0.1, 0.1)).rates == Rates(0.1, 0.1)
    assert first.on(ISOLATED).graph is ISOLATED


@pytest.mark.parametrize(("q", "added"), [(0.2, 1), (0.01, 0), (0.5, 3), (1.0, 6)])
def test_fixed_sampling_rounds_the_rate_to_what_is_added(q, added):
    """A path of five nodes has six non-edges."""
    fixed = Law(PATH, Rates(0.3, q), views=Views(sampling="fixed"))
    assert fixed.rates == Rates(0.3, added / 6)
    assert sample(fixed).added.size == 2 * added
    assert Law(PATH, Rates(0.3, q)).rates.q == q


def adjacencies() -> dict[str, Adjacency]:
    of = law()
    return {"graph": PATH, "view": sample(of), "mean": MeanView(of), "fresh": FreshViews(of)}


@pytest.mark.parametrize("kind", ["graph", "view", "mean", "fresh"])
def test_an_adjacency_used_as_a_tensor_says_what_to_do(kind):
    words = r"only convolutions that RADE converted can take it.*\.graph\.given"
    made = adjacencies()[kind]
    with pytest.raises(AttributeError, match=words):
        made.shape  # noqa: B018
    with pytest.raises(TypeError, match=f"cannot be indexed.*{words}"):
        made[0]
    with pytest.raises(TypeError, match=f"cannot be unpacked into source and target.*{words}"):
        source, target = made  # noqa: RUF059
    for other in (copy.copy(made), copy.deepcopy(made)):
        assert torch.equal(other.graph.edge_index, PATH.edge_index)


@pytest.mark.parametrize("kind", ["graph", "mean"])
def test_adjacencies_pickle(kind):
    """A law with a generator does not: generators cannot be pickled."""
    made = {"graph": PATH, "mean": MeanView(Law(PATH, Rates(0.3, 0.2)))}[kind]
    assert torch.equal(pickle.loads(pickle.dumps(made)).graph.edge_index, PATH.edge_index)


def test_an_error_inside_a_property_is_seen():
    """Not hidden behind the sentence about tensors."""

    class Odd(Adjacency):
        @property
        def graph(self) -> Graph:
            return PATH

        @property
        def wrong(self) -> int:
            return self.graph.pattern.nothing

    with pytest.raises(AttributeError, match="'Pattern' object has no attribute 'nothing'"):
        Odd().wrong  # noqa: B018


def test_other_adjacencies_are_refused():
    class Odd(Adjacency):
        graph = PATH

    with pytest.raises(TypeError, match=r"expected a Graph, View or MeanView .* got Odd; register .*aggregation"):
        propagate(Odd(), Sum(PATH, torch.double), EYE)


def test_layers_that_aggregate_alike_share_their_operator():
    """One operator per view and kind of coefficients; other coefficients or another view build their own."""
    view = sample(law(ISOLATED))
    for coefficients in (Sum(ISOLATED, torch.double), Sum(ISOLATED, torch.double), Symmetric(ISOLATED, torch.double)):
        propagate(view, coefficients, EYE)
    assert len(view.memo) == 2


def test_every_layer_finds_its_own_view_again():
    fresh = FreshViews(law())
    one, two = fresh.for_layer(("one", 0)), fresh.for_layer(("two", 0))
    assert fresh.for_layer(("one", 0)) is one
    assert not torch.equal(one.edge_index, two.edge_index)
    assert one.for_layer(("any", 0)) is one
    assert PATH.for_layer(("any", 0)) is PATH


def test_two_layers_have_independent_views():
    """2,000 draws: the inclusions of an edge in two layers are uncorrelated to 5 standard errors; seed fixed."""
    of, both = law(), []
    for _ in range(2000):
        fresh = FreshViews(of)
        both.append([bool(fresh.for_layer((k, 0)).kept[0]) for k in range(2)])
    kept = torch.tensor(both).double() - 0.7
    assert abs(float(kept.prod(1).mean())) < 5 * 0.21 / 2000**0.5
    assert float(kept.mean(0).abs().max()) < 5 * 0.21**0.5 / 2000**0.5


def test_what_a_pass_runs_on_is_as_the_law_says():
    assert isinstance(draw(law(views=Views(shared=True))), View)
    assert isinstance(draw(law(views=Views(shared=False))), FreshViews)


def test_a_convolution_must_resolve_its_own_view():
    with pytest.raises(TypeError, match=r"self\.send\(adjacency, coefficients, messages\), which finds the view"):
        propagate(FreshViews(law()), Sum(PATH, torch.double), EYE)


class Calls:
    """A function that is counted."""

    def __init__(self, function) -> None:
        self.function, self.count = function, 0

    def __call__(self, *args):
        self.count += 1
        return self.function(*args)


@pytest.fixture
def products(monkeypatch) -> Calls:
    """Sparse products from here on."""
    calls = Calls(Matrix.add)
    monkeypatch.setattr(Matrix, "add", lambda *args: calls(*args))
    return calls


@pytest.fixture
def quadratures(monkeypatch) -> Calls:
    """Integrals of degree moments from here on."""
    calls = Calls(Integral.weight)
    monkeypatch.setattr(Integral, "weight", lambda *args: calls(*args))
    return calls


@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_inference_of_two_layers_is_two_products_and_no_quadrature_the_second_time(variant, products, quadratures):
    """Clean edges and the complement's are one operator, kept with the law."""
    layers, of, x = [GCNConv(3, 3), GCNConv(3, 2)], law(ISOLATED, variant), torch.ones(5, 3)
    for _ in range(2):
        products.count = quadratures.count = 0
        out = layers[1](layers[0](x, MeanView(of)), MeanView(of))
    assert (products.count, quadratures.count) == (2, 0)
    assert out.shape == (5, 2)


@pytest.mark.parametrize("run", ["inference", "views", "ensemble"])
def test_three_layers_at_one_law_need_one_quadrature(run, quadratures):
    """Given an edge, given a non-edge, and for the loops: moments belong to the law, not to a layer or a view."""
    graph = undirected([(0, 1), (1, 2)], 5)  # a new one: what was integrated for a graph is kept with it
    layers, of, x = [GCNConv(3, 3) for _ in range(3)], law(graph, "ofs"), torch.ones(5, 3)
    passes = {"inference": [MeanView(of)], "views": [FreshViews(of)], "ensemble": [FreshViews(of) for _ in range(8)]}
    for adjacency in passes[run]:
        h = x
        for layer in layers:
            h = layer(h, adjacency)
    assert quadratures.count == 1


def test_inference_is_one_merged_operator_and_the_sum_of_its_parts():
    of = law(ISOLATED, "ofs")
    for coefficients in (Symmetric(ISOLATED, torch.double), Mean(ISOLATED, torch.double)):
        merged = propagate(MeanView(of), coefficients, EYE)
        apart = propagate(ISOLATED, coefficients, EYE) + coefficients.expected(of).nonedges.apply(EYE)
        assert error(merged, apart) <= 1e-14


def test_inference_of_one_graph_does_not_depend_on_the_view():
    """RADE-OF inference is the clean graph, at any rates."""
    clean = propagate(PATH, Symmetric(PATH, torch.double), EYE)
    for rates in (Rates(0.0, 0.0), Rates(0.9, 0.5)):
        assert torch.equal(propagate(MeanView(Law(PATH, rates)), Symmetric(PATH, torch.double), EYE), clean)


def test_moments_with_gradients_stay_with_their_law():
    """Nothing that hangs on the rates' gradients is remembered by the graph."""
    graph = undirected([(0, 1), (1, 2)], 3)
    for _ in range(2):
        p = torch.tensor(0.3, dtype=torch.double, requires_grad=True)
        Symmetric(graph, torch.double).mean(Law(graph, Rates(p, 0.2))).edges.sum().backward()
        assert p.grad is not None


def test_a_graph_of_one_node():
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 1)
    x = torch.ones(1, 2).double()
    for variant in Variant:
        view = sample(Law(graph, Rates(0.5, 0.5), variant))
        assert torch.equal(propagate(view, Symmetric(graph, torch.double), x), x)
        assert torch.equal(propagate(view, Sum(graph, torch.double), x), 0 * x)
    assert sample_view(graph, Rates(0.5, 0.5)).edge_index.shape == (2, 0)
