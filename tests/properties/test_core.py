"""Laws of the core on graphs, batches and rates that nobody chose."""

import pytest

pytest.importorskip("hypothesis")

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from rade.control.variance import variance
from rade.view.sampling import sample

import rade
from properties.strategies import SEEDS, VARIANTS, graphs, rates, tried
from rade.correction import propagate, terms
from rade.graph.pairs import pair_count, rank_pairs, unrank_pairs
from rade.moments import Sent, Symmetric
from rade.testing.aggregators import ALL, EXACT
from rade.testing.oracle import AllViews, adjacency, error, one_hot

AGGREGATORS = st.sampled_from(list(ALL))
EXACTLY = st.sampled_from(list(EXACT))


def drawn(graph, given_rates, variant, seed):
    return sample(rade.Law(graph, given_rates, variant, generator=torch.Generator().manual_seed(seed)))


@tried(40)
@given(graphs(most_graphs=3), rates(), SEEDS)
def test_a_view_is_a_simple_undirected_graph_within_its_graphs(graph, given_rates, seed):
    view = drawn(graph, given_rates, rade.Variant.OF, seed)
    source, target = view.edge_index
    assert bool((source != target).all())
    assert torch.equal(graph.batch[source], graph.batch[target])
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.long)
    dense.index_put_((target, source), torch.tensor(1), accumulate=True)
    assert int(dense.max()) <= 1
    assert torch.equal(dense, dense.t())
    added = torch.zeros_like(dense, dtype=torch.bool)
    added[view.added.target, view.added.source] = True
    assert not bool((added & adjacency(graph)).any())
    if given_rates.p == 0.0:
        assert bool(view.kept.all())
    if given_rates.q == 0.0:
        assert view.added.size == 0
    if given_rates.q == 1.0:
        assert view.added.size == 2 * graph.num_nonedges


@tried(25)
@given(graphs(most_nodes=4), rates(), st.sampled_from([rade.Variant.OF, rade.Variant.OFS]), EXACTLY)
def test_the_mean_over_all_views_is_what_inference_computes(graph, given_rates, variant, aggregator):
    views = AllViews(rade.Law(graph, given_rates, variant))
    features = one_hot(graph, aggregator.heads)
    mean = views.mean(views.aggregate(aggregator.on(graph), features))
    target = propagate(rade.MeanView(views.law), aggregator.alone(graph), features)
    assert error(mean, target) < max(aggregator.tolerance, 1e-8) or float((mean - target).abs().max()) < 1e-12


@tried(40)
@given(graphs(most_graphs=3), VARIANTS, AGGREGATORS, SEEDS)
def test_without_dropping_and_adding_every_view_is_the_graph(graph, variant, aggregator, seed):
    view, x = drawn(graph, rade.Rates(0.0, 0.0), variant, seed), aggregator.messages(graph)
    coefficients = aggregator.alone(graph)
    found, clean = (propagate(of, coefficients, x) for of in (view, graph))
    torch.testing.assert_close(found, clean, rtol=1e-4, atol=1e-4)


@tried(40)
@given(graphs(most_graphs=3), rates(), AGGREGATORS, SEEDS)
def test_equal_messages_of_strangers_cancel_under_rade_of(graph, given_rates, aggregator, seed):
    """Centering: if everybody says the same, additions add nothing, whichever were drawn."""
    view, coefficients = drawn(graph, given_rates, rade.Variant.OF, seed), aggregator.alone(graph)
    ones = torch.ones_like(aggregator.messages(graph))
    weights, of = coefficients.realised(coefficients.on(view)), terms(coefficients, view.law)
    without = graph.pattern.row_sum(weights.edges * of.edges) + weights.loop * of.loop
    torch.testing.assert_close(propagate(view, coefficients, ones), without[..., None] * ones, rtol=1e-6, atol=1e-6)


@tried(40)
@given(graphs(most_graphs=3), rates(), VARIANTS, AGGREGATORS, SEEDS)
def test_all_that_is_computed_is_finite_and_linear_in_the_messages(graph, given_rates, variant, aggregator, seed):
    view, coefficients = drawn(graph, given_rates, variant, seed), aggregator.alone(graph)
    x, y = aggregator.messages(graph, seed=1), aggregator.messages(graph, seed=2)
    for of in (view, rade.MeanView(view.law)):
        together, apart = propagate(of, coefficients, 2 * x - y), 2 * propagate(of, coefficients, x)
        apart = apart - propagate(of, coefficients, y)
        assert bool(together.isfinite().all())
        torch.testing.assert_close(together, apart, rtol=1e-9, atol=1e-9 * (1 + float(apart.abs().max())))


@tried(30)
@given(graphs(most_graphs=3), rates(), VARIANTS, EXACTLY)
def test_variances_are_finite_and_not_negative(graph, given_rates, variant, aggregator):
    spread = variance(Sent(aggregator.alone(graph), aggregator.messages(graph)), rade.Law(graph, given_rates, variant))
    for part in (spread.drop, spread.total):
        assert bool(part.isfinite().all())
        assert float(part.min()) > -1e-9 * (1 + float(part.abs().max()))


@tried(30)
@given(graphs(most_graphs=2), rates(), VARIANTS, EXACTLY, SEEDS)
def test_single_precision_is_near_double(graph, given_rates, variant, aggregator, seed):
    view, x = drawn(graph, given_rates, variant, seed), aggregator.messages(graph)
    for of in (view, rade.MeanView(view.law)):
        double = propagate(of, aggregator.alone(graph), x)
        single = propagate(of, aggregator.alone(graph, torch.float), x.float())
        assert single.dtype is torch.float
        # Factors grow like 1/(1−p): up to 20, times sums of up to twelve messages.
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-3)


@tried(30)
@given(graphs(), rates(), st.sampled_from([rade.Variant.OF, rade.Variant.OFS]), st.permutations(range(12)))
def test_nodes_may_be_numbered_otherwise(graph, given_rates, variant, numbers):
    assume(graph.num_nodes > 1)
    place = torch.tensor(numbers)
    place = torch.argsort(torch.argsort(place[: graph.num_nodes]))
    other = rade.Graph.from_edge_index(place[graph.edge_index], graph.num_nodes)
    x = torch.randn(graph.num_nodes, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    moved = torch.empty_like(x)
    moved[place] = x
    here = propagate(rade.MeanView(rade.Law(graph, given_rates, variant)), Symmetric(graph, x.dtype), x)
    there = propagate(rade.MeanView(rade.Law(other, given_rates, variant)), Symmetric(other, x.dtype), moved)
    torch.testing.assert_close(there[place], here, rtol=1e-9, atol=1e-9)


@tried(60)
@given(st.integers(2, 10**7), st.data())
def test_pairs_are_ranked_and_found_again(size, data):
    count = int(pair_count(torch.tensor(size)))
    rank = torch.tensor([0, count - 1, data.draw(st.integers(0, count - 1))])
    low, high = unrank_pairs(rank, torch.tensor(size))
    assert bool((low >= 0).all() and (low < high).all() and (high < size).all())
    assert torch.equal(rank_pairs(low, high, torch.tensor(size)), rank)
