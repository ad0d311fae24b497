"""The pieces: features, edges, collation."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch

import rade.data
from rade.data.edges import clean_edges
from rade.data.features import SPARSE_BELOW, choose_layout, row_normalised


@pytest.mark.parametrize("name", ["mutag", "ogbg-molhiv"])
def test_collation_is_that_of_pyg(name: str, root):
    graphs = rade.data.load(name, root, download=False).graphs
    index = torch.tensor([5, 0, 187, 5])
    ours, theirs = graphs.batch(index), Batch.from_data_list([graphs[i] for i in index.tolist()])
    for key in ("x", "edge_index", "y", "batch", "ptr"):
        assert torch.equal(ours[key], theirs[key]), key
    assert (ours.num_graphs, ours.num_nodes) == (4, theirs.num_nodes)


def test_a_list_of_graphs_behaves_like_a_list():
    graphs = rade.data.far_pair(graphs=7).graphs
    assert len(graphs) == len(list(graphs)) == 7
    assert torch.equal(graphs[-1].x, graphs[6].x)
    assert len(graphs[2:5]) == 3
    with pytest.raises(IndexError, match="graph 7 of 7"):
        graphs[7]


def test_graph_batches_cover_all_graphs_and_shuffle_by_seed():
    graphs = rade.data.far_pair(graphs=20).graphs
    index = torch.arange(3, 20)
    one, two = (rade.data.GraphBatches(graphs, index, 5, shuffle=True, seed=1) for _ in range(2))
    first, again, second = list(one), list(two), list(one)
    assert [batch.num_graphs for batch in first] == [5, 5, 5, 2]
    assert len(one) == 4
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again))
    assert not all(torch.equal(a.x, b.x) for a, b in zip(first, second))
    plain = list(rade.data.GraphBatches(graphs, index, 5))
    assert torch.equal(plain[0].edge_index, graphs.batch(index[:5]).edge_index)


@pytest.mark.parametrize(("density", "layout"), [(0.05, torch.sparse_csr), (0.5, torch.strided)])
def test_the_layout_of_features_follows_their_density(density: float, layout: torch.layout):
    matrix = sp.random(100, 50, density, format="csr", random_state=0)
    x = choose_layout(matrix)
    assert 0.05 < SPARSE_BELOW < 0.5
    assert (x.layout, x.dtype) == (layout, torch.float32)
    assert np.allclose(x.to_dense().numpy(), matrix.toarray())


def test_rows_are_normalised_and_empty_rows_stay_empty():
    rows = row_normalised(sp.csr_matrix(np.array([[2.0, 6.0], [0.0, 0.0]])))
    assert np.allclose(rows.toarray(), [[0.25, 0.75], [0, 0]])


def test_clean_up_makes_simple_undirected_sorted_graphs():
    source, target = np.array([2, 0, 1, 1, 0]), np.array([0, 2, 1, 2, 2])
    assert clean_edges(source, target, 3).tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    empty = np.empty(0, dtype=np.int64)
    assert clean_edges(empty, empty, 0).shape == (2, 0)


def test_node_data_carries_its_sizes_and_density_without_pairs_is_zero():
    tables = rade.data.tables.one_graph(torch.ones(1, 2), torch.empty(2, 0, dtype=torch.long), torch.zeros(1))
    assert tables.density() == 0
