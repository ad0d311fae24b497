"""Laws of the neighbor sampler, and of the loader around it in one process or several."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, k_hop_subgraph

import rade.data
from rade.data import neighbor
from rade.data.sampler import Neighborhoods
from rade.data.tensors import clean_edges

FALSE_ALARM = 1e-6  # of each χ² test below, were it run with fresh seeds


def random_graph(nodes: int = 400, edges: int = 2400, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    edge_index = clean_edges(rng.integers(0, nodes, edges), rng.integers(0, nodes, edges), nodes)
    x = torch.from_numpy(rng.normal(size=(nodes, 5)).astype(np.float32))
    return Data(x=x, edge_index=edge_index, y=torch.arange(nodes) % 3, num_nodes=nodes)


DATA = random_graph()
CASES = [rade.data.Sampling(replace, bidirectional=both) for replace in (False, True) for both in (False, True)]


def loader(fanouts: list[int], replace: bool = False, bidirectional: bool = True, data: Data = DATA, **options):
    options = {"batch_size": 50, "shuffle": True, "seed": 3, "backend": "builtin"} | options
    return rade.data.neighbor_loader(data, fanouts, sampling=rade.data.Sampling(replace, bidirectional), **options)


def keys(edge_index: Tensor, n_id: Tensor) -> Tensor:
    """One number per edge, in the numbering of the full graph."""
    source, target = n_id[edge_index]
    return source * DATA.num_nodes + target


def same(first, second) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(torch.equal(a.n_id, b.n_id) and torch.equal(a.edge_index, b.edge_index) for a, b in pairs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_are_parts_of_the_graph_and_repeat_with_the_seed(case: rade.data.Sampling):
    wanted = torch.arange(0, DATA.num_nodes, 3)
    existing = DATA.edge_index[0] * DATA.num_nodes + DATA.edge_index[1]
    one, two, other = (loader([4, 3], **vars(case), input_nodes=wanted, seed=seed) for seed in (3, 3, 4))
    batches = list(one)
    for batch in batches:
        assert bool(torch.isin(keys(batch.edge_index, batch.n_id), existing).all())
        assert torch.equal(batch.x, DATA.x[batch.n_id])
        assert torch.equal(batch.y, DATA.y[batch.n_id])
        assert batch.num_nodes == batch.n_id.unique().numel()
        assert torch.equal(wanted[batch.input_id], batch.n_id[: batch.batch_size])
        if case.bidirectional:
            assert is_undirected(batch.edge_index, num_nodes=batch.num_nodes)
            assert batch.is_coalesced()
    assert torch.equal(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).sort().values, wanted)
    assert same(batches, list(two))
    assert same(list(one), list(two))  # the second pass draws anew, and the same for equal seeds
    assert not same(batches, list(other))


@pytest.mark.parametrize("fanouts", [[4, 3], [1, 1, 1], [2, 0], [-1, 2]])
@pytest.mark.parametrize("replace", [False, True])
def test_fanouts_are_respected_exactly(fanouts: list[int], replace: bool):
    """Hop by hop: min(fan-out, degree) edges per node without replacement, fan-out edges with it."""
    degree = torch.bincount(DATA.edge_index[1], minlength=DATA.num_nodes)
    for batch in loader(fanouts, replace, bidirectional=False):
        indegree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        first = 0
        for hop, fanout in enumerate(fanouts):
            hops = slice(first, first + batch.num_sampled_nodes[hop])
            whole = degree[batch.n_id[hops]]
            expected = (whole > 0) * fanout if replace else whole.clamp(max=fanout)
            assert torch.equal(indegree[hops], whole if fanout < 0 else expected)
            assert int(indegree[hops].sum()) == batch.num_sampled_edges[hop]
            first = hops.stop
        assert int(indegree[first:].sum()) == 0


def test_all_neighbors_give_the_full_neighborhood_and_passes_draw_anew():
    for batch in loader([-1, -1], batch_size=20, bidirectional=False):
        nodes, _, _, _ = k_hop_subgraph(batch.n_id[:20], 2, DATA.edge_index, num_nodes=DATA.num_nodes)
        assert torch.equal(batch.n_id.sort().values, nodes)
    batches = loader([4, 3], shuffle=False)
    assert not same(list(batches), list(batches))


@pytest.mark.parametrize("replace", [False, True])
def test_subsets_are_uniform(replace: bool):
    """χ² over all outcomes of two draws from a node's five neighbors."""
    draws = 60_000
    star = clean_edges(np.zeros(5, dtype=np.int64), np.arange(1, 6), 6)
    neighborhoods, generator = Neighborhoods.of(star, 6), torch.Generator().manual_seed(0)
    picked, _ = neighborhoods.draw(np.zeros(draws, dtype=np.int64), 2, replace, generator)
    pairs = np.sort((neighborhoods.source[picked] - 1).reshape(draws, 2), axis=1)
    found = np.zeros((5, 5), dtype=np.int64)
    np.add.at(found, (pairs[:, 0], pairs[:, 1]), 1)
    upper = np.triu_indices(5, k=0 if replace else 1)
    weight = np.where(upper[0] == upper[1], 1.0, 2.0)
    expected = draws * weight / weight.sum()
    assert found[upper].sum() == draws
    assert ((found[upper] - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, len(weight) - 1)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # PyTorch's own way of unpacking a CSR matrix
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_give_the_same_batches(start: str):
    """In every pass; sparse features, tensors on the same memory and empty ones reach spawned workers, too."""
    data = rade.data.load("csbm", nodes=300, content=rade.data.Words(60)).graphs[0]
    data.twice, data.empty = data.y, torch.empty(300, 0)
    options = {"num_workers": 2, "multiprocessing_context": start, "persistent_workers": True}
    alone, workers = loader([4, 3], data=data), loader([4, 3], data=data, **options)
    for _ in range(2):
        batches = list(workers)
        assert same(batches, list(alone))
        for batch in batches:
            assert batch.x.layout is torch.sparse_csr
            assert torch.equal(batch.x.to_dense(), data.x.to_dense()[batch.n_id])
            assert torch.equal(batch.twice, data.y[batch.n_id])
            assert batch.empty.shape == (batch.num_nodes, 0)


def test_edge_attributes_travel_in_one_direction_and_are_refused_in_both():
    data = DATA.clone()
    data.edge_attr = torch.arange(data.edge_index.size(1))
    with pytest.raises(rade.data.DataError, match=r"edge attributes \['edge_attr'\] .*Sampling.bidirectional=False"):
        loader([2], data=data)
    for batch in loader([2], bidirectional=False, data=data):
        assert torch.equal(data.edge_index[:, batch.edge_attr], batch.n_id[batch.edge_index])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fanouts": []}, "one number per hop"),
        ({"fanouts": [-2]}, "one number per hop"),
        ({"fanouts": [2], "backend": "pyg-lib"}, "needs the package pyg-lib"),
        ({"fanouts": [2], "input_nodes": torch.tensor([1, 1])}, "must be distinct"),
    ],
)
def test_wrong_arguments_are_explained(change: dict, sentence: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbor.torch_geometric.typing, "WITH_PYG_LIB", False)
    with pytest.raises(rade.data.DataError, match=sentence):
        next(iter(loader(**change)))


def test_masks_transforms_changed_graphs_and_isolated_nodes():
    mask = torch.arange(DATA.num_nodes) % 4 == 0
    assert same(list(loader([3], input_nodes=mask)), list(loader([3], input_nodes=mask.nonzero().squeeze(1))))
    sparse = rade.data.load("csbm", nodes=300, content=rade.data.Words(60)).graphs[0]
    assert next(iter(loader([2], data=sparse, transform=lambda batch: batch.x.layout))) is torch.sparse_csr
    data = random_graph(seed=1)
    before = next(iter(loader([-1], data=data, batch_size=400)))
    data.edge_index[:] = data.edge_index.roll(1, dims=0) % 7
    assert int(before.edge_index.max()) > int(next(iter(loader([-1], data=data, batch_size=400))).edge_index.max())
    empty = Data(x=torch.ones(4, 2), edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=4)
    for replace in (False, True):
        batch = next(iter(loader([3, 2], replace, data=empty, batch_size=2)))
        assert (batch.num_nodes, batch.edge_index.size(1), batch.batch_size) == (2, 0, 2)


def test_the_mean_size_of_batches_gives_the_rate_of_the_full_graph():
    sizes = [batch.num_nodes for batch in loader([4, 3], shuffle=False)]
    assert rade.data.mean_batch_nodes(loader([4, 3], shuffle=False)) == pytest.approx(sum(sizes) / len(sizes))
