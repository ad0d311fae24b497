"""Random views: the distribution of Eq. 6, no more and no less, in single graphs and batches."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from core.test_graph import ALL, MIXED
from rade import Graph, Rates, View, Views, sample_view
from rade.distribution import Distribution
from rade.testing.oracle import GRAPHS, adjacency, copies, nonedges, pairs_of, undirected
from rade.views import branched, draw, packed, returning, unpack

VIEWS = 100_000
BATCH, ISOLATED, STAR = GRAPHS["batch"], GRAPHS["isolated"], GRAPHS["star"]
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


def test_the_joint_distribution_of_all_pairs():
    """All 64 views of a four-node graph among 10^5: χ² with 63 degrees of freedom at 10^−6, seed fixed."""
    graph, p, q = undirected([(0, 1), (1, 2), (2, 3)], 4), 0.4, 0.3
    pairs, is_edge = pairs_of(graph)
    dense = dense_views(sample_view(copies(graph, VIEWS), Rates(p, q), seeded(1)), graph)
    code = (dense[:, pairs[0], pairs[1]].long() << torch.arange(6)).sum(1)
    bits = ((torch.arange(64)[:, None] >> torch.arange(6)) & 1).bool()
    rate = torch.where(is_edge, 1 - p, q)
    expected = VIEWS * torch.where(bits, rate, 1 - rate).prod(1)
    count = torch.bincount(code, minlength=64)
    assert float(((count - expected).square() / expected).sum()) < chi2.isf(1e-6, 63)


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


@both
def test_views_of_a_batch_stay_within_its_graphs(sampling):
    """200 graphs of 1 to 12 nodes: no loops, nothing twice, no addition that is an edge, both directions."""
    generator, parts, sizes = seeded(3), [], []
    for _ in range(200):
        n = int(torch.randint(1, 13, (1,), generator=generator))
        upper = (torch.rand(n, n, generator=generator) < 0.3).triu(1)
        parts.append((upper | upper.t()).nonzero().t() + sum(sizes))
        sizes.append(n)
    batch = torch.repeat_interleave(torch.tensor(sizes))
    graph = Graph.from_edge_index(torch.cat(parts, 1), len(batch), batch)
    view = drawn(graph, Rates(0.5, 0.3), seeded(4), sampling)
    source, target = view.edge_index
    assert bool((source != target).all())
    assert torch.equal(batch[source], batch[target])
    assert len(torch.unique(target * len(batch) + source)) == len(source)
    assert not bool(adjacency(graph)[view.added.target, view.added.source].any())
    assert not Graph.from_edge_index(view.edge_index, len(batch), batch).directed
    assert torch.equal(view.added.source[view.added.transposition], view.added.target)
    assert view.added.size > 0


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


def test_fixed_sampling_is_uniform_over_nonedges():
    """Two of the six non-edges of a star: 5,000 views, χ² of the 15 choices at 10^−6, seed fixed."""
    generator, counts = seeded(7), {}
    for _ in range(5_000):
        view = drawn(STAR, Rates(0.0, 1 / 3), generator, "fixed")
        key = tuple(zip(view.added.target.tolist(), view.added.source.tolist()))
        counts[key] = counts.get(key, 0) + 1
    frequency, expected = torch.tensor(list(counts.values())).double(), 5_000 / 15
    assert len(frequency) == 15
    assert float(((frequency - expected).square() / expected).sum()) < chi2.isf(1e-6, 14)


@both
@pytest.mark.parametrize("nodes", [0, 1, 4])
@pytest.mark.parametrize("q", [0.0, 0.5, 1.0])
def test_graphs_without_edges(nodes, q, sampling):
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), nodes)
    view = drawn(graph, Rates(0.5, q), seeded(), sampling)
    assert view.kept.numel() == 0
    assert view.kept_as_given().numel() == 0
    assert view.added.size <= nodes * (nodes - 1)
    assert q == 0.5 or view.added.size == q * nodes * (nodes - 1)


@both
@pytest.mark.parametrize("graph", [*ALL.values(), COMPLETE], ids=[*ALL, "complete"])
def test_extreme_rates(graph, sampling):
    """q = 1 completes the graph, q = 0 adds nothing, p = 0 drops nothing; a complete graph has nothing to add."""
    everything = drawn(graph, Rates(0.0, 1.0), seeded(), sampling)
    assert everything.added.size == int(nonedges(graph).sum())
    assert everything.edge_index.shape[1] == int((graph.sizes * (graph.sizes - 1)).sum())
    nothing = drawn(graph, Rates(0.0, 0.0), seeded(), sampling)
    assert torch.equal(nothing.edge_index, graph.edge_index)


def test_kept_edges_in_the_callers_order():
    """Self-loops are kept, and all of a repeated edge or none."""
    edges = torch.tensor([[3, 0, 1, 0, 1, 2, 1, 0], [3, 1, 0, 1, 2, 1, 0, 0]])
    graph = Graph.from_edge_index(edges, 4)
    for seed in range(20):
        view = sample_view(graph, Rates(0.5, 0.5), seeded(seed))
        there = torch.eye(4, dtype=torch.bool).index_put(tuple(view.edge_index), torch.tensor(True))
        assert torch.equal(view.kept_as_given(), there[tuple(edges)])


def test_rates_given_as_tensors():
    """Rate rules pass tensors that require gradients; sampling takes their values."""
    p, q = (torch.tensor(v, dtype=torch.double, requires_grad=True) for v in (0.5, 0.3))
    one, other = (sample_view(MIXED, rates, seeded()) for rates in (Rates(p, q), Rates(0.5, 0.3)))
    assert torch.equal(one.edge_index, other.edge_index)


def test_generators_travel_branch_and_return():
    """Packed and unpacked they go on alike; a copy's stream is another; looking leaves them where they were."""
    one, other = seeded(3), torch.Generator()
    torch.rand(5, generator=one)
    unpack(other, packed(one))
    with returning(one):
        torch.rand(7, generator=one)
    streams = [branched(one, number) for number in (1, 2)]
    assert torch.equal(torch.rand(4, generator=one), torch.rand(4, generator=other))
    assert not torch.equal(*(torch.rand(4, generator=stream) for stream in streams))
