"""The clean graph: what it accepts, what it refuses and in which words, and what follows from it."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
import torch
from torch_geometric.data import Batch, Data

from rade import Graph
from rade.correction import propagate
from rade.moments import Symmetric
from rade.testing.oracle import GRAPHS, adjacency, nonedges, undirected

BATCH, ISOLATED = GRAPHS["batch"], GRAPHS["isolated"]

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])

REFUSED = {
    "one row": (lambda: Graph.from_edge_index(torch.zeros(1, 4, dtype=torch.long)), r"shape \[2, E\], got \[1, 4\]"),
    "transposed": (lambda: Graph.from_edge_index(EDGES.t().contiguous()), r"shape \[2, E\], got \[4, 2\]"),
    "floats": (lambda: Graph.from_edge_index(EDGES.float()), r"int64 node ids, got torch.float32; .*\.long\(\)"),
    "int32": (lambda: Graph.from_edge_index(EDGES.int()), "int64 node ids, got torch.int32"),
    "too few nodes": (lambda: Graph.from_edge_index(EDGES, num_nodes=2), "from 0 to 1, got 2; check num_nodes"),
    "negative": (lambda: Graph.from_edge_index(EDGES - 1), "from 0 to 1, got -1"),
    "directed": (lambda: Graph.from_edge_index(EDGES[:, :3]), "both directions of every edge.*to_undirected"),
    "wrong reverse": (lambda: Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]])), "to_undirected"),
    "duplicated": (lambda: Graph.from_edge_index(torch.cat([EDGES, EDGES], 1)), "more than once; .*coalesce"),
    "batch too short": (
        lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0])),
        r"each of the 3 nodes as int64, got torch.int64 \[2\]",
    ),
    "batch of floats": (lambda: Graph.from_edge_index(EDGES, 3, torch.zeros(3)), "as int64, got torch.float32"),
    "batch unsorted": (lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([1, 0, 0])), "batch must be ascending"),
    "across graphs": (
        lambda: Graph.from_edge_index(EDGES, 3, torch.tensor([0, 0, 1])),
        "joins nodes of different graphs",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_order_of_edges_does_not_matter_and_weights_can_follow():
    """A shuffled edge_index gives the same pattern; ``order`` leads from it back to the caller's edges."""
    shuffle = torch.randperm(ISOLATED.pattern.size, generator=torch.Generator().manual_seed(0))
    given = ISOLATED.edge_index[:, shuffle]
    graph = Graph.from_edge_index(given, 5)
    assert torch.equal(graph.pattern.source, ISOLATED.pattern.source)
    assert torch.equal(graph.pattern.rowptr, ISOLATED.pattern.rowptr)
    assert torch.equal(given[:, graph.order], graph.edge_index)


def test_self_loops_are_removed_and_counted():
    loops = torch.tensor([[0, 2, 0], [0, 2, 1]])
    graph = Graph.from_edge_index(torch.cat([loops, torch.tensor([[1], [0]])], 1), 4)
    assert (graph.self_loops, graph.num_edges, graph.num_nodes) == (2, 1, 4)
    assert graph.order.tolist() == [3, 2]


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
def test_reverse_positions_lead_to_the_reverse_edge(graph):
    there, other = graph.pattern.transposition, graph.pattern.transpose
    assert torch.equal(graph.pattern.source[there], other.target)
    assert torch.equal(graph.pattern.target[there], other.source)
    assert torch.equal(there[other.transposition], torch.arange(graph.pattern.size))
    assert (other is graph.pattern) is not graph.directed


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
def test_counts(graph):
    assert torch.equal(graph.degree, adjacency(graph).sum(1))
    assert torch.equal(graph.nonneighbors, nonedges(graph).sum(1))
    assert graph.graph is graph
    twice = 1 if graph.directed else 2  # each pair and each edge, over ordered ones
    pairs = graph.sizes * (graph.sizes - 1) // twice
    edges = torch.stack([adjacency(graph)[graph.batch == b].sum() / twice for b in range(graph.num_graphs)])
    assert graph.density == pytest.approx(float(edges.sum() / pairs.sum()))
    assert bool((graph.edge_rank.diff() > 0).all())


def test_a_batch_from_pyg():
    """``batch`` and ``ptr`` of PyG's Batch mean the same."""
    parts = [undirected([(0, 1), (1, 2)], 3), undirected([(0, 1), (1, 2), (2, 3)], 4)]
    batch = Batch.from_data_list([Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in parts])
    for graph in (
        Graph.from_edge_index(batch.edge_index, batch=batch.batch),
        Graph.from_edge_index(batch.edge_index, ptr=batch.ptr),
        Graph.from_edge_index(batch.edge_index, batch.num_nodes, batch.batch, batch.ptr),
    ):
        assert torch.equal(graph.edge_index, BATCH.edge_index)
        assert torch.equal(graph.ptr, BATCH.ptr)
        assert graph.sizes.tolist() == [3, 4]


def test_an_empty_graph_in_the_middle_of_a_batch():
    graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), ptr=torch.tensor([0, 2, 2, 3]))
    assert graph.sizes.tolist() == [2, 0, 1]
    assert graph.density == 1.0


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_graphs_without_edges(nodes):
    graph = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), nodes)
    assert (graph.num_nodes, graph.num_edges, graph.density) == (nodes, 0, 0.0)
    assert graph.degree.tolist() == [0] * nodes


def test_it_is_immutable_and_leaves_its_input_alone():
    given = EDGES.clone()
    graph = Graph.from_edge_index(given)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.batch = torch.zeros(3)
    assert torch.equal(given, EDGES)


def test_a_moved_graph_is_the_same():
    moved = BATCH.to("cpu")
    assert torch.equal(moved.edge_index, BATCH.edge_index)
    assert torch.equal(moved.edge_rank, BATCH.edge_rank)
    assert moved.self_loops == BATCH.self_loops


def test_pooling_and_back():
    x = torch.arange(7.0)[:, None]
    assert BATCH.pool(x).flatten().tolist() == [3.0, 18.0]
    assert BATCH.per_node(BATCH.pool(x)).flatten().tolist() == [3.0] * 3 + [18.0] * 4


def test_copies_and_pickles_are_small_and_work():
    """What a graph remembers does not travel: a used graph pickles like a new one."""
    graph = undirected([(i, i + 1) for i in range(200)], 201)
    new, x = pickle.dumps(graph), torch.ones(201, 2)
    out = propagate(graph, Symmetric(graph, torch.float), x)
    assert graph.density > 0
    assert len(graph.edge_rank) == 200
    assert len(pickle.dumps(graph)) <= 1.05 * len(new)
    for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert torch.equal(other.edge_index, graph.edge_index)
        assert torch.equal(propagate(other, Symmetric(other, torch.float), x), out)


def test_a_graph_seen_in_inference_mode_serves_training_later():
    graph = Graph.from_edge_index(EDGES)
    x = torch.ones(3, 2, requires_grad=True)
    with torch.inference_mode():
        propagate(graph, Symmetric(graph, torch.float), x)
        assert graph.degree.tolist() == [1, 2, 1]
    propagate(graph, Symmetric(graph, torch.float), x).sum().backward()
    assert x.grad is not None
