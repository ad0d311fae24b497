"""The loader around the sampler: features, attributes, arguments, the rate of the full graph."""

import pytest
import torch
from data_sampling import DATA, loader, random_graph, same, signature
from torch_geometric.data import Data

import rade.data
from rade.data.features import take_rows
from rade.data.neighbor import loader as module


def test_sparse_features_stay_sparse_and_are_those_of_the_nodes():
    dataset = rade.data.load("csbm", nodes=300, content=rade.data.Words(60))
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
    with pytest.raises(rade.data.DataError, match=r"edge attributes \['edge_attr'\] .*Sampling.bidirectional=False"):
        rade.data.neighbor_loader(data, [2], 10)
    for batch in rade.data.neighbor_loader(
        data, [2], 50, sampling=rade.data.Sampling(bidirectional=False), backend="builtin"
    ):
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
    monkeypatch.setattr(module.torch_geometric.typing, "WITH_PYG_LIB", False)
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
    monkeypatch.setattr(module.torch_geometric.typing, "WITH_PYG_LIB", True)
    monkeypatch.setattr(module, "NeighborLoader", lambda *args, **options: calls.append((args, options)))
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
        batch = next(
            iter(rade.data.neighbor_loader(empty, [3, 2], 2, sampling=rade.data.Sampling(replace), backend="builtin"))
        )
        assert (batch.num_nodes, batch.edge_index.size(1), batch.batch_size) == (2, 0, 2)


def test_the_full_graph_needs_a_smaller_add_rate():
    """The expected number of additions per node is the same on a batch and on the full graph."""
    rates, batch_nodes, nodes = rade.Rates(0.5, 0.02), 500, 20_000
    assert rates.scaled(batch_nodes / nodes).q * nodes == pytest.approx(rates.q * batch_nodes)


def test_the_mean_size_of_batches_is_that_of_the_batches():
    batches = loader([4, 3], shuffle=False)
    sizes = [batch.num_nodes for batch in loader([4, 3], shuffle=False)]
    assert rade.data.mean_batch_nodes(batches) == pytest.approx(sum(sizes) / len(sizes))
