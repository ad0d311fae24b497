"""Laws of the neighbor sampler and its loader."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, k_hop_subgraph

import rade.data
from rade.data import neighbors
from rade.data.edges import clean_edges
from rade.data.features import take_rows

FALSE_ALARM = 1e-6  # of each χ² test below, were it run with fresh seeds


def random_graph(nodes: int = 400, edges: int = 2400, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    edge_index = clean_edges(rng.integers(0, nodes, edges), rng.integers(0, nodes, edges), nodes)
    x = torch.from_numpy(rng.normal(size=(nodes, 5)).astype(np.float32))
    return Data(x=x, edge_index=edge_index, y=torch.arange(nodes) % 3, num_nodes=nodes)


DATA = random_graph()


def keys(edge_index: Tensor, n_id: Tensor, nodes: int = DATA.num_nodes) -> Tensor:
    """One number per edge, in the numbering of the full graph."""
    source, target = n_id[edge_index]
    return source * nodes + target


def loader(fanouts: list[int], **options):
    options = {"batch_size": 50, "shuffle": True, "seed": 3, "backend": "builtin"} | options
    return rade.data.neighbor_loader(DATA, fanouts, **options)


CASES = {
    "plain": {},
    "one direction": {"bidirectional": False},
    "replacement": {"replace": True},
    "replacement, one direction": {"replace": True, "bidirectional": False},
    "disjoint": {"disjoint": True},
    "disjoint, one direction": {"disjoint": True, "bidirectional": False},
}


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


def signature(batches) -> list[tuple[Tensor, Tensor]]:
    return [(batch.n_id, batch.edge_index) for batch in batches]


def same(first, second) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(first, second)
    )


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
    sampler = rade.data.VectorisedNeighborSampler(
        rade.data.neighborhoods.Neighborhoods.of(star, 6), [2], replace=replace, bidirectional=False
    )
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


def test_sparse_features_stay_sparse_and_are_those_of_the_nodes():
    dataset = rade.data.load("csbm", nodes=300)
    data = dataset.graphs[0]
    for batch in rade.data.neighbor_loader(data, [3, 3], 64, dataset.split(0).train, True, 0):
        assert batch.x.layout is torch.sparse_csr
        assert torch.equal(batch.x.to_dense(), data.x.to_dense()[batch.n_id])
        assert batch.num_nodes == batch.n_id.numel()


def test_rows_of_a_sparse_matrix_are_taken_like_rows_of_a_dense_one():
    dense = torch.rand(30, 8, generator=torch.Generator().manual_seed(0)).relu() - 0.5
    dense = dense.clamp(min=0)
    dense[::4] = 0
    index = torch.tensor([3, 0, 29, 3, 4, 17])
    taken = take_rows(dense.to_sparse_csr(), index)
    assert torch.equal(taken.to_dense(), dense[index])
    assert take_rows(dense.to_sparse_csr(), index[:0]).shape == (0, 8)
    assert torch.equal(take_rows(dense, index), dense[index])


def test_edge_attributes_travel_in_one_direction_and_are_refused_in_both():
    data = DATA.clone()
    data.edge_attr = torch.arange(data.edge_index.size(1))
    with pytest.raises(rade.data.DataError, match=r"edge attributes \['edge_attr'\] .* bidirectional=False"):
        rade.data.neighbor_loader(data, [2], 10)
    for batch in rade.data.neighbor_loader(data, [2], 50, bidirectional=False, backend="builtin"):
        assert torch.equal(data.edge_index[:, batch.edge_attr], batch.n_id[batch.edge_index])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fanouts": []}, "one number per hop"),
        ({"fanouts": [-2]}, "one number per hop"),
        ({"fanouts": [2], "backend": "pyg-lib"}, "needs the package pyg-lib"),
    ],
)
def test_wrong_arguments_are_explained(change: dict, sentence: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbors.torch_geometric.typing, "WITH_PYG_LIB", False)
    with pytest.raises(rade.data.DataError, match=sentence):
        rade.data.neighbor_loader(DATA, batch_size=5, **change)


def test_repeated_seeds_are_refused_where_they_would_share_a_node():
    seeds = torch.tensor([1, 1])
    with pytest.raises(rade.data.DataError, match="must be distinct"):
        next(iter(loader([2], input_nodes=seeds)))
    assert next(iter(loader([2], input_nodes=seeds, disjoint=True))).n_id[:2].tolist() == [1, 1]


def test_a_mask_of_seed_nodes_works_like_their_indices():
    mask = torch.arange(DATA.num_nodes) % 4 == 0
    assert same(signature(loader([3], input_nodes=mask)), signature(loader([3], input_nodes=mask.nonzero().squeeze(1))))


def test_pyg_libs_loader_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch):
    """pyg-lib itself has no wheel here; what is checked is how it would be called."""
    calls = []
    monkeypatch.setattr(neighbors.torch_geometric.typing, "WITH_PYG_LIB", True)
    monkeypatch.setattr(neighbors, "NeighborLoader", lambda *args, **options: calls.append((args, options)))
    rade.data.neighbor_loader(DATA, [2, 1], 5, shuffle=True)
    ((data, fanouts, _), options) = calls[0]
    assert data is DATA
    assert fanouts == [2, 1]
    assert (options["subgraph_type"], options["batch_size"], len(options["sampler"])) == ("bidirectional", 5, 400)
    assert loader([2]) is not None
    assert len(calls) == 1


def test_a_changed_graph_is_noticed():
    data = random_graph(seed=1)
    before = next(iter(rade.data.neighbor_loader(data, [-1], 400, backend="builtin")))
    data.edge_index.copy_(data.edge_index.flip(1))
    again = next(iter(rade.data.neighbor_loader(data, [-1], 400, backend="builtin")))
    assert torch.equal(before.edge_index, again.edge_index)
    data.edge_index[:] = data.edge_index.roll(1, dims=0) % 7
    changed = next(iter(rade.data.neighbor_loader(data, [-1], 400, backend="builtin")))
    assert int(changed.edge_index.max()) < 7


def test_isolated_nodes_and_empty_graphs():
    empty = Data(x=torch.ones(4, 2), edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=4)
    for replace in (False, True):
        batch = next(iter(rade.data.neighbor_loader(empty, [3, 2], 2, replace=replace, backend="builtin")))
        assert (batch.num_nodes, batch.edge_index.size(1), batch.batch_size) == (2, 0, 2)


def test_the_full_graph_needs_a_smaller_add_rate():
    """The expected number of additions per node is the same on a batch and on the full graph."""
    q, batch_nodes, nodes = torch.tensor(0.02, requires_grad=True), 500, 20_000
    scaled = rade.data.full_graph_rate(q, batch_nodes, nodes)
    assert torch.allclose(scaled * nodes, q * batch_nodes)
    assert scaled.requires_grad
    assert rade.data.full_graph_rate(0.3, 10, 10) == 0.3
    with pytest.raises(rade.data.DataError, match="between 1 and 10 nodes, got 11"):
        rade.data.full_graph_rate(0.3, 11, 10)


def test_the_mean_size_of_batches_is_that_of_the_batches():
    batches = loader([4, 3], shuffle=False)
    sizes = [batch.num_nodes for batch in loader([4, 3], shuffle=False)]
    assert rade.data.mean_batch_nodes(batches) == pytest.approx(sum(sizes) / len(sizes))
