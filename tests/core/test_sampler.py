"""Random views: the distribution of Eq. 6, no more and no less; and the walk over pairs that draws them."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from core.test_graph import ALL
from rade import Graph, Rates, View, Views, sample_view
from rade.distribution import Distribution
from rade.graph.pairs import bernoulli_positions, fixed_positions, pair_count, rank_pairs, unrank_pairs
from rade.testing.oracle import GRAPHS, adjacency, copies, nonedges, pairs_of, undirected
from rade.views import draw

VIEWS = 100_000
BATCH, ISOLATED = GRAPHS["batch"], GRAPHS["isolated"]
COMPLETE = undirected(list(combinations(range(5), 2)), 5)
both = pytest.mark.parametrize("sampling", ["bernoulli", "fixed"])


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


def test_views_of_one_graph_drawn_one_by_one():
    """2,000 views of a ring of 30 from one generator: χ² of the counts of all 435 pairs at 10^−6, seed fixed."""
    ring = undirected([(i, (i + 1) % 30) for i in range(30)], 30)
    generator, total = seeded(2), torch.zeros(30, 30)
    for _ in range(2000):
        source, target = sample_view(ring, Rates(0.3, 0.05), generator).edge_index
        total[target, source] += 1
    pairs, is_edge = pairs_of(ring)
    rate = torch.where(is_edge, 0.7, 0.05)
    count = total[pairs[0], pairs[1]]
    statistic = float(((count - 2000 * rate).square() / (2000 * rate * (1 - rate))).sum())
    assert statistic < chi2.isf(1e-6, len(rate))


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


@pytest.mark.parametrize("q", [0.0, 0.1, 0.35, 0.5, 1.0])
def test_fixed_sampling_adds_the_exact_count(q):
    """And the rate of its distribution is what is really added."""
    graph = copies(ISOLATED, 50)
    view = drawn(graph, Rates(0.3, q), seeded(), "fixed")
    assert view.added.size // 2 == round(q * graph.num_nonedges)
    assert view.rates.q == view.added.size / 2 / graph.num_nonedges
    assert not bool(adjacency(graph)[view.added.target, view.added.source].any())


@both
@pytest.mark.parametrize("graph", [*ALL.values(), COMPLETE], ids=[*ALL, "complete"])
def test_extreme_rates(graph, sampling):
    """q = 1 completes the graph, q = 0 adds nothing, p = 0 drops nothing; a complete graph has nothing to add."""
    everything = drawn(graph, Rates(0.0, 1.0), seeded(), sampling)
    assert everything.added.size == int(nonedges(graph).sum())
    assert everything.edge_index.shape[1] == int((graph.sizes * (graph.sizes - 1)).sum())
    nothing = drawn(graph, Rates(0.0, 0.0), seeded(), sampling)
    assert torch.equal(nothing.edge_index, graph.edge_index)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("n", [10**5, 2**20, 9_999_999, 10**7])
def test_unranking_is_exact_for_large_graphs(n, directed):
    """A million random ranks, and both ends of a hundred thousand rows, where the root may round across."""
    size, generator = torch.tensor(n), seeded()
    total = int(pair_count(size, directed))
    row = torch.randint(n - 1, (100_000,), generator=generator)
    ends = [rank_pairs(row, row + 1, size, directed), rank_pairs(row, torch.full_like(row, n - 1), size, directed)]
    edges = torch.tensor([0, 1, total - 2, total - 1])
    rank = torch.cat([torch.randint(total, (1_000_000,), generator=generator), *ends, edges])
    target, source = unrank_pairs(rank, size, directed)
    assert bool(((target >= 0) & (source >= 0) & (target < n) & (source < n) & (target != source)).all())
    assert directed or bool((target < source).all())
    assert torch.equal(rank_pairs(target, source, size, directed), rank)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.5, 0.93])
def test_positions_are_bernoulli(rate):
    """One walk over 200,000 positions: χ² of the counts in 500 boxes, 2e-6, and the number of neighbors, 6e-5 (4 σ)."""
    total, boxes = 200_000, 500
    found = bernoulli_positions(total, rate, seeded(), torch.device("cpu"))
    assert bool((found.diff() > 0).all())
    assert 0 <= int(found[0]) <= int(found[-1]) < total
    count = torch.bincount(found // (total // boxes), minlength=boxes).double()
    expected = total / boxes * rate
    statistic = float(((count - expected).square() / (expected * (1 - rate))).sum())
    assert chi2.ppf(1e-6, boxes) < statistic < chi2.isf(1e-6, boxes)
    present = torch.zeros(total, dtype=torch.bool).index_fill_(0, found, True)
    together = int((present[1:] & present[:-1]).sum())
    variance = total * rate**2 * (1 - rate**2) + 2 * total * (rate**3 - rate**4)
    assert abs(together - (total - 1) * rate**2) < 4 * variance**0.5 + 1


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
