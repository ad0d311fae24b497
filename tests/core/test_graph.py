"""The clean graph: what it accepts, what it refuses and in which words, and what follows from it."""

import copy
import dataclasses
import pickle

import pytest
import torch
from torch_geometric.data import Batch, Data

from rade import Graph
from rade.correction import Adjacency
from rade.moments import Normalised
from rade.testing.aggregators import normal
from rade.testing.oracle import GRAPHS, undirected

BATCH = GRAPHS["batch"]
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
MIXED = Graph.from_edge_index(torch.tensor([[0, 2, 1, 4, 3, 4], [2, 0, 4, 1, 4, 3]]), 5, torch.tensor([1, 0, 1, 0, 0]))
ALL = {**GRAPHS, "mixed": MIXED}

REFUSED = {
    "transposed": (lambda: Graph.from_edge_index(EDGES.t().contiguous()), r"shape \[2, E\], got \[4, 2\]"),
    "floats": (lambda: Graph.from_edge_index(EDGES.float()), r"int64 node ids, got torch.float32; .*\.long\(\)"),
    "too few nodes": (lambda: Graph.from_edge_index(EDGES, num_nodes=2), "from 0 to 1, got 2; check num_nodes"),
    "negative": (lambda: Graph.from_edge_index(EDGES - 1), "from 0 to 1, got -1"),
    "said undirected": (lambda: Graph.from_edge_index(EDGES[:, :3], directed=False), "lacks.*to_undirected"),
    "short batch": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0])), r"each of the 3 nodes.*int64 \[2\]"),
    "batch of floats": (lambda: Graph.from_edge_index(EDGES, 3, torch.zeros(3)), "as int64, got torch.float32"),
    "graph -1": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([-1, 0, 0])), "number graphs from 0, got -1"),
    "across": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0, 1])), "joins nodes of different graphs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_self_loops_and_repetitions_are_left_out_and_known():
    edges = torch.tensor([[0, 2, 0, 1, 0], [0, 2, 1, 0, 1]])
    graph = Graph.from_edge_index(edges, 4)
    assert (graph.self_loops, graph.repeated, graph.num_edges, graph.num_nodes, graph.num_given) == (2, True, 1, 4, 5)
    assert graph.edge_index.tolist() == [[1, 0], [0, 1]]
    assert graph.order.tolist() == [3, 2]
    assert graph.entry.tolist() == [-1, -3, 1, 0, 1]
    assert torch.equal(graph.given, edges)
    only = Graph.from_edge_index(edges[:, :2], 4)
    assert (only.num_edges, only.given.tolist()) == (0, [[0, 2], [0, 2]])
    simple = Graph.from_edge_index(EDGES)
    assert (simple.self_loops, simple.repeated, simple.num_given, simple.entry) == (0, False, 4, None)


def test_a_batch_from_pyg():
    """An empty graph may be in the middle."""
    parts = [undirected([(0, 1), (1, 2)], 3), undirected([(0, 1), (1, 2), (2, 3)], 4)]
    batch = Batch.from_data_list([Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in parts])
    graph = Graph.from_edge_index(batch.edge_index, batch=batch.batch)
    assert torch.equal(graph.edge_index, BATCH.edge_index)
    assert torch.equal(graph.ptr, BATCH.ptr)
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), batch=torch.tensor([0, 0, 2]))
    assert (graph.sizes.tolist(), graph.density) == ([2, 0, 1], 1.0)


@pytest.mark.parametrize("name", ["isolated", "mixed", "directed-batch"])
def test_copies_and_pickles_are_the_same(name):
    graph = ALL[name]
    x = normal(graph.num_nodes, 2)
    out = Adjacency(graph).aggregate(Normalised.symmetric(graph, torch.double), x)
    for there in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert torch.equal(there.edge_index, graph.edge_index)
        assert torch.equal(there.edge_rank, graph.edge_rank)
        assert torch.equal(Adjacency(there).aggregate(Normalised.symmetric(there, torch.double), x), out)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.batch = torch.zeros(3)
