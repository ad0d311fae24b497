"""Laws of the neighbor sampler and of the batches that it makes."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

import rade.data
from rade.data.neighbor import Neighborhoods
from rade.data.tensors import clean_edges

NODES = 400
FALSE_ALARM = 1e-6  # of the χ² test below, were it run with fresh seeds


def random_graph(seed=0):
    ends = np.random.default_rng(seed).integers(0, NODES, (2, 2400))
    return Data(x=torch.randn(NODES, 5), edge_index=clean_edges(*ends, NODES), y=torch.arange(NODES) % 3)


DATA = random_graph()


def loader(fanouts, data=DATA, **options):
    return rade.data.NeighborLoader(data, fanouts, **{"batch_size": 50, "shuffle": True, "seed": 3} | options)


def same(first, second):
    pairs = list(zip(first, second, strict=True))
    return all(torch.equal(a.n_id, b.n_id) and torch.equal(a.edge_index, b.edge_index) for a, b in pairs)


def test_batches_are_parts_of_the_graph_and_repeat_with_the_seed():
    mask = torch.arange(NODES) % 3 == 0
    wanted, existing = mask.nonzero().squeeze(1), DATA.edge_index[0] * NODES + DATA.edge_index[1]
    one, two, other = (loader([4, 3], input_nodes=wanted, seed=seed) for seed in (3, 3, 4))
    batches = list(one)
    assert len(batches) == len(one)
    for batch in batches:
        source, target = batch.n_id[batch.edge_index]
        assert bool(torch.isin(source * NODES + target, existing).all())
        assert torch.equal(batch.x, DATA.x[batch.n_id])
        assert torch.equal(batch.y, DATA.y[batch.n_id])
        assert batch.num_nodes == batch.n_id.unique().numel()
        assert is_undirected(batch.edge_index, num_nodes=batch.num_nodes)
        assert batch.is_coalesced()
    assert torch.equal(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).sort().values, wanted)
    assert same(batches, two)
    assert same(one, two)  # the second pass draws anew, and the same for equal seeds
    assert not same(batches, other)
    fixed = loader([4, 3], shuffle=False)
    assert not same(list(fixed), list(fixed))
    assert rade.data.mean_batch_nodes(batches, 2) == (batches[0].num_nodes + batches[1].num_nodes) / 2
    assert same(batches, loader([4, 3], input_nodes=mask))


@pytest.mark.parametrize("fanout", [-1, 0, 2, 4])
def test_fanouts_are_respected_exactly(fanout):
    known, nodes = Neighborhoods.of(DATA.edge_index, NODES), np.arange(NODES)
    drawn, counts = known.draw(nodes, fanout, torch.Generator().manual_seed(0))
    degree = np.diff(known.begin)
    assert np.array_equal(counts, degree if fanout < 0 else np.minimum(degree, fanout))
    assert len(np.unique(drawn)) == len(drawn) == counts.sum()
    owner = np.repeat(nodes, counts)
    assert bool(((known.begin[owner] <= drawn) & (drawn < known.begin[owner + 1])).all())


def test_subsets_are_uniform():
    """χ² over all outcomes of two draws from a node's five neighbors."""
    draws, star = 60_000, clean_edges(np.zeros(5, dtype=np.int64), np.arange(1, 6), 6)
    known = Neighborhoods.of(star, 6)
    picked, _ = known.draw(np.zeros(draws, dtype=np.int64), 2, torch.Generator().manual_seed(0))
    pairs = np.sort((known.source[picked] - 1).reshape(draws, 2), axis=1)
    found = np.bincount(5 * pairs[:, 0] + pairs[:, 1], minlength=25).reshape(5, 5)[np.triu_indices(5, k=1)]
    assert found.sum() == draws
    assert ((found - draws / 10) ** 2 / (draws / 10)).sum() < chi2.isf(FALSE_ALARM, 9)


def test_sparse_features_changed_graphs_and_isolated_nodes():
    sparse = rade.data.load("csbm", nodes=300, content=rade.data.Words(60)).graphs[0]
    batch = next(iter(loader([2], sparse)))
    assert batch.x.layout is torch.sparse_csr
    assert torch.equal(batch.x.to_dense(), sparse.x.to_dense()[batch.n_id])
    data = random_graph(seed=1)
    before = next(iter(loader([-1], data, batch_size=NODES)))
    data.edge_index[:] = data.edge_index.roll(1, dims=0) % 7
    assert int(before.edge_index.max()) > int(next(iter(loader([-1], data, batch_size=NODES))).edge_index.max())
    empty = Data(x=torch.ones(4, 2), edge_index=torch.empty(2, 0, dtype=torch.long))
    batch = next(iter(loader([3, 2], empty, batch_size=2)))
    assert (batch.num_nodes, batch.edge_index.size(1), batch.batch_size) == (2, 0, 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fanouts": [-2]}, "one number per hop"),
        ({"fanouts": [2], "input_nodes": torch.tensor([1, 1])}, "must be distinct"),
        ({"fanouts": [2], "data": DATA.clone().update({"edge_attr": torch.ones(DATA.num_edges, 1)})}, "reverse edges"),
    ],
)
def test_wrong_arguments_are_explained(change, sentence):
    with pytest.raises(rade.data.DataError, match=sentence):
        next(iter(loader(**change)))
