"""Random views: the distribution of Eq. 6, no more and no less; and the walk over pairs that draws them."""

from itertools import combinations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

import rade
from core.test_values import ALL
from rade import Graph, Rates, View, Views, sample_view
from rade.distribution import Distribution
from rade.testing.oracle import GRAPHS, adjacency, copies, nonedges, pairs_of, undirected
from rade.views import bernoulli_positions, draw, fixed_positions
from zoo import EDGES, X, wrapped

VIEWS = 100_000
BATCH, ISOLATED = GRAPHS["batch"], GRAPHS["isolated"]
COMPLETE = undirected(list(combinations(range(5), 2)), 5)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(graph: Graph, rates: Rates, generator: torch.Generator, sampling: str) -> View:
    return draw(Distribution(graph, rates, views=Views(sampling=sampling)), generator)


def dense_views(view: View, graph: Graph) -> Tensor:
    """A view of a batch of copies of ``graph`` as one matrix per copy, [K, n, n] bool."""
    (source, target), n = view.edge_index, graph.num_nodes
    dense = torch.zeros(view.graph.num_nodes // n, n, n, dtype=torch.bool)
    dense[target // n, target % n, source % n] = True
    return dense


@pytest.mark.parametrize("name", ["path", "star", "isolated", "batch", "mixed", "directed", "directed-batch"])
@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.5, 0.02), (0.05, 0.9)])
def test_pairs_are_included_independently_at_their_rates(name, p, q):
    """10^5 views: χ² of all inclusion counts, and of all correlations of two pairs; 10^−6 each, seed fixed."""
    graph = ALL[name]
    pairs, is_edge = pairs_of(graph)
    dense = dense_views(sample_view(copies(graph, VIEWS), Rates(p, q), seeded()), graph)
    assert torch.equal(dense, dense.mT) is not graph.directed
    present = dense[:, pairs[0], pairs[1]].double()
    rate = torch.where(is_edge, torch.tensor(1 - p).double(), torch.tensor(q).double())
    score = (present - rate) / (rate * (1 - rate)).sqrt()  # independent, mean 0, variance 1
    assert float(score.sum(0).square().sum() / VIEWS) < chi2.isf(1e-6, len(rate))
    meetings = torch.triu(score.t() @ score / VIEWS**0.5, 1)
    assert float(meetings.square().sum()) < chi2.isf(1e-6, len(rate) * (len(rate) - 1) // 2)


def test_the_same_seed_draws_the_same_view_on_any_number_of_threads():
    graph, threads, seen = copies(BATCH, 20_000), torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            seen.append(sample_view(graph, Rates(0.5, 0.1), seeded(5)))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(seen[0].edge_index, seen[1].edge_index)
    assert not torch.equal(seen[0].edge_index, sample_view(graph, Rates(0.5, 0.1), seeded(6)).edge_index)


def test_a_generator_or_the_seed_of_torch_reproduces_a_training():
    before, found = torch.get_rng_state(), [wrapped(seed=seed).train()(X, EDGES) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)  # which is left alone
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(rade.RADE(rade.revert(wrapped())).train()(X, EDGES))
    for one, same, other in (found[:3], found[3:]):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_both_directions_may_be_drawn_by_themselves():
    model = wrapped(rule=rade.Constant(0.5, 0.5), views=rade.Views(directed=True)).train()
    model(X, EDGES)
    (view, _) = model._context.reached.views.values()
    assert not torch.equal(view.kept, view.kept[view.graph.pattern.transposition])


@pytest.mark.parametrize("q", [0.0, 0.1, 0.35, 0.5, 1.0])
def test_fixed_sampling_adds_the_exact_count(q):
    """And the rate of its distribution is what is really added."""
    graph = copies(ISOLATED, 50)
    view = drawn(graph, Rates(0.3, q), seeded(), "fixed")
    assert view.added.size // 2 == round(q * graph.num_nonedges)
    assert view.rates.q == view.added.size / 2 / graph.num_nonedges
    assert not bool(adjacency(graph)[view.added.target, view.added.source].any())


@pytest.mark.parametrize("sampling", ["bernoulli", "fixed"])
@pytest.mark.parametrize("graph", [*ALL.values(), COMPLETE], ids=[*ALL, "complete"])
def test_extreme_rates(graph, sampling):
    """q = 1 completes the graph, q = 0 adds nothing, p = 0 drops nothing; a complete graph has nothing to add."""
    everything = drawn(graph, Rates(0.0, 1.0), seeded(), sampling)
    assert everything.added.size == int(nonedges(graph).sum())
    assert everything.edge_index.shape[1] == int((graph.sizes * (graph.sizes - 1)).sum())
    nothing = drawn(graph, Rates(0.0, 0.0), seeded(), sampling)
    assert torch.equal(nothing.edge_index, graph.edge_index)


@pytest.mark.parametrize("rate", [1e-12, 1e-15, 1e-300])
def test_tiny_rates_over_a_huge_space(rate):
    """5·10^13 pairs at 10^−12: about 50 successes (between 15 and 100 but for one seed in 10^6), no overflow."""
    total = 10**7 * (10**7 - 1) // 2
    found = bernoulli_positions(total, rate, seeded(1), torch.device("cpu"))
    assert bool(((found >= 0) & (found < total)).all())
    assert rate < 1e-12 or 15 <= len(found) <= 100


@pytest.mark.parametrize(("total", "count"), [(6, 2), (6, 4), (5, 1)])
def test_fixed_positions_are_uniform_subsets(total, count):
    """10,000 draws, all subsets equally likely, χ² at 10^−6; seed fixed."""
    generator, draws = seeded(), 10_000
    drawn = torch.stack([fixed_positions(total, count, generator, torch.device("cpu")) for _ in range(draws)])
    subsets = torch.tensor(list(combinations(range(total), count)))
    frequency = (drawn[:, None] == subsets).all(2).sum(0).double()
    assert int(frequency.sum()) == draws
    expected = draws / len(subsets)
    assert float(((frequency - expected).square() / expected).sum()) < chi2.isf(1e-6, len(subsets) - 1)
