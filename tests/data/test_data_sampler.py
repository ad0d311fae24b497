"""Laws of the neighbor sampler."""

import numpy as np
import pytest
import torch
from data_sampling import CASES, DATA, keys, loader, same, signature
from scipy.stats import chi2
from torch_geometric.utils import is_undirected, k_hop_subgraph

import rade.data
from rade.data.edges import clean_edges
from rade.data.neighbor.neighborhoods import Neighborhoods

FALSE_ALARM = 1e-6  # of each χ² test below, were it run with fresh seeds


@pytest.mark.parametrize("case", CASES)
def test_every_sampled_edge_exists_and_rows_belong_to_their_nodes(case: str):
    existing = DATA.edge_index[0] * DATA.num_nodes + DATA.edge_index[1]
    for batch in loader([4, 3], **CASES[case]):
        assert bool(torch.isin(keys(batch.edge_index, batch.n_id), existing).all())
        assert torch.equal(batch.x, DATA.x[batch.n_id])
        assert torch.equal(batch.y, DATA.y[batch.n_id])
        assert batch.num_nodes == batch.n_id.numel()


@pytest.mark.parametrize("case", ["plain", "replacement", "disjoint"])
def test_batches_are_bidirectional_and_coalesced(case: str):
    for batch in loader([4, 3], **CASES[case]):
        assert is_undirected(batch.edge_index, num_nodes=batch.num_nodes)
        assert batch.is_coalesced()


@pytest.mark.parametrize("disjoint", [False, True])
def test_nodes_are_distinct_within_a_batch_or_within_a_seed(disjoint: bool):
    for batch in loader([4, 3], disjoint=disjoint):
        tree = batch.batch if disjoint else torch.zeros_like(batch.n_id)
        assert (tree * DATA.num_nodes + batch.n_id).unique().numel() == batch.n_id.numel()
        if disjoint:
            assert torch.equal(tree[: batch.batch_size], torch.arange(batch.batch_size))
            assert torch.equal(tree[batch.edge_index[0]], tree[batch.edge_index[1]])


def test_seeds_come_first_and_every_seed_comes_once():
    wanted = torch.arange(0, DATA.num_nodes, 3)
    batches = list(loader([4, 3], input_nodes=wanted))
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in batches])
    assert torch.equal(seeds.sort().values, wanted)
    assert [batch.batch_size for batch in batches] == [50, 50, 34]
    for batch in batches:
        assert torch.equal(wanted[batch.input_id], batch.n_id[: batch.batch_size])


@pytest.mark.parametrize("fanouts", [[4, 3], [1, 1, 1], [2, 0], [-1, 2]])
@pytest.mark.parametrize("replace", [False, True])
def test_fanouts_are_respected_exactly(fanouts: list[int], replace: bool):
    """Hop by hop: min(fan-out, degree) edges per node without replacement, fan-out edges with it."""
    degree = torch.bincount(DATA.edge_index[1], minlength=DATA.num_nodes)
    for batch in loader(fanouts, replace=replace, bidirectional=False):
        indegree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        first = 0
        for hop, fanout in enumerate(fanouts):
            hops = slice(first, first + batch.num_sampled_nodes[hop])
            whole = degree[batch.n_id[hops]]
            if fanout < 0:
                expected = whole
            else:
                expected = (whole > 0) * fanout if replace else whole.clamp(max=fanout)
            assert torch.equal(indegree[hops], expected)
            assert int(indegree[hops].sum()) == batch.num_sampled_edges[hop]
            first = hops.stop
        assert int(indegree[first:].sum()) == 0
        if not replace:
            assert keys(batch.edge_index, batch.n_id).unique().numel() == batch.edge_index.size(1)


@pytest.mark.parametrize("disjoint", [False, True])
def test_all_neighbors_give_the_full_neighborhood(disjoint: bool):
    for batch in loader([-1, -1], batch_size=1 if disjoint else 20, disjoint=disjoint, bidirectional=False):
        seeds = batch.n_id[: batch.batch_size]
        nodes, _, _, _ = k_hop_subgraph(seeds, 2, DATA.edge_index, num_nodes=DATA.num_nodes)
        inner, _, _, _ = k_hop_subgraph(seeds, 1, DATA.edge_index, num_nodes=DATA.num_nodes)
        assert torch.equal(batch.n_id.sort().values, nodes)
        into = torch.isin(DATA.edge_index[1], inner)
        expected = DATA.edge_index[0, into] * DATA.num_nodes + DATA.edge_index[1, into]
        assert torch.equal(keys(batch.edge_index, batch.n_id).sort().values, expected.sort().values)


@pytest.mark.parametrize("case", CASES)
def test_equal_seeds_give_equal_batches_in_every_pass(case: str):
    one, two, other = loader([4, 3], **CASES[case]), loader([4, 3], **CASES[case]), loader([4, 3], seed=4)
    first, again = signature(one), signature(two)
    assert same(first, again)
    assert same(signature(one), signature(two))
    assert not same(first, signature(other))


def test_every_pass_draws_anew_even_without_shuffling():
    batches = loader([4, 3], shuffle=False)
    assert not same(signature(batches), signature(batches))


@pytest.mark.parametrize("persistent", [False, True])
def test_worker_processes_give_the_same_batches(persistent: bool):
    alone = loader([4, 3], batch_size=200)
    workers = loader([4, 3], batch_size=200, num_workers=2, persistent_workers=persistent)
    for _ in range(2):
        assert same(signature(alone), signature(workers))


def counts_of_subsets(replace: bool, draws: int) -> np.ndarray:
    """How often each outcome of two draws from a node's five neighbors occurs."""
    star = clean_edges(np.zeros(5, dtype=np.int64), np.arange(1, 6), 6)
    sampler = rade.data.VectorisedNeighborSampler(Neighborhoods.of(star, 6), [2], replace=replace, bidirectional=False)
    found = np.zeros((5, 5), dtype=np.int64)
    generator = torch.Generator().manual_seed(0)
    picked, _ = sampler.neighborhoods.draw(np.zeros(draws, dtype=np.int64), 2, replace, generator)
    pairs = np.sort((sampler.neighborhoods.source[picked] - 1).reshape(draws, 2), axis=1)
    np.add.at(found, (pairs[:, 0], pairs[:, 1]), 1)
    return found


@pytest.mark.parametrize("replace", [False, True])
def test_subsets_are_uniform(replace: bool):
    """χ² over all outcomes; false alarm 1e-6 at a fresh seed, none at this one."""
    draws = 60_000
    found = counts_of_subsets(replace, draws)
    upper = np.triu_indices(5, k=0 if replace else 1)
    weight = np.where(upper[0] == upper[1], 1.0, 2.0) if replace else np.ones(10)
    expected = draws * weight / weight.sum()
    statistic = ((found[upper] - expected) ** 2 / expected).sum()
    assert found.sum() == draws == found[upper].sum()
    assert statistic < chi2.isf(FALSE_ALARM, len(weight) - 1)


def test_every_edge_is_drawn_equally_often():
    """Through the loader, at many degrees: inclusions of each edge against fan-out/degree; false alarm 1e-6."""
    passes, fanout = 300, 3
    batches = loader([fanout], batch_size=400, bidirectional=False)
    counts = np.zeros(DATA.num_nodes**2)
    for _ in range(passes):
        for batch in batches:
            counts[keys(batch.edge_index, batch.n_id).numpy()] += 1
    edge = (DATA.edge_index[0] * DATA.num_nodes + DATA.edge_index[1]).numpy()
    degree = torch.bincount(DATA.edge_index[1], minlength=DATA.num_nodes).numpy()[DATA.edge_index[1]]
    chance = np.minimum(fanout / degree, 1)
    random = chance < 1
    expected = passes * chance[random]
    # Each edge's count is binomial; within a node they add up, which takes one degree of freedom per node.
    scores = (counts[edge][random] - expected) ** 2 / expected * (degree[random] - 1) / (degree[random] - fanout)
    freedom = random.sum() - np.unique(DATA.edge_index[1].numpy()[random]).size
    assert scores.sum() < chi2.isf(FALSE_ALARM, freedom)
    assert scores.sum() > chi2.ppf(FALSE_ALARM, freedom)
