"""Traps of PyG's augmentations and layers: each is shown where it is cheap to, and ours does not fall into it."""

from __future__ import annotations

import random

import pytest
import torch
from rade.view import sample
from torch_geometric.nn import GATConv as PyGGATConv
from torch_geometric.nn import GCNConv as PyGGCNConv
from torch_geometric.utils import add_random_edge, dropout_edge

import rade.nn
from rade import Graph, Law, Rates, sample_view
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import copies, error

PATH, ISOLATED = GRAPHS["path"], GRAPHS["isolated"]
DIRECTED = torch.tensor([[1, 2, 3], [0, 1, 2]])  # all row > column
RING = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_self_loops_are_not_doubled():
    loops = torch.arange(4).expand(2, 4)
    theirs, _ = dropout_edge(loops, p=1e-12, force_undirected=True)
    assert theirs.shape[1] == 8  # the trap
    graph = Graph.from_edge_index(torch.cat([RING, loops], 1))
    view = sample_view(graph, Rates(0.0, 0.0), seeded())
    assert graph.self_loops == 4
    assert torch.equal(view.edge_index, graph.edge_index)
    assert not bool((view.edge_index[0] == view.edge_index[1]).any())


def test_edges_of_a_directed_graph_do_not_vanish():
    theirs, _ = dropout_edge(DIRECTED, p=1e-12, force_undirected=True)
    assert theirs.shape[1] == 0  # the trap: nothing is left although nothing is dropped
    with pytest.raises(ValueError, match="to_undirected"):
        Graph.from_edge_index(DIRECTED)


def test_what_was_kept_is_a_mask_at_all_times():
    kinds = {dropout_edge(RING, p=0.5, force_undirected=True, training=t)[1].dtype for t in (True, False)}
    assert len(kinds) == 2  # the trap
    graph = Graph.from_edge_index(RING)
    for rates in (Rates(0.5, 0.0), Rates(0.0, 0.0)):
        assert sample_view(graph, rates, seeded()).kept.dtype == torch.bool


def test_both_directions_are_dropped_together():
    view = sample_view(copies(ISOLATED, 100), Rates(0.5, 0.2), seeded())
    assert torch.equal(view.kept, view.kept[view.graph.pattern.transposition])


def test_a_view_without_changes_holds_integers():
    theirs, _ = add_random_edge(RING, p=0.0)
    assert theirs.dtype == torch.float32 or theirs.dtype == torch.long  # float32 in PyG 2.8.1
    view = sample_view(Graph.from_edge_index(RING), Rates(0.0, 0.0), seeded())
    assert view.edge_index.dtype == torch.long
    assert view.added.source.dtype == torch.long


def test_more_edges_can_be_added_than_there_are():
    with pytest.raises(ValueError):
        add_random_edge(RING, p=1.5)  # the trap: at most as many as there are
    one_edge = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 50)
    view = sample_view(one_edge, Rates(0.0, 0.5), seeded())
    assert view.added.size > 100 * one_edge.pattern.size


def test_no_edge_joins_two_graphs_of_a_batch():
    batch = copies(PATH, 10)
    added = add_random_edge(batch.edge_index, p=0.5, force_undirected=True)[1]
    across = batch.batch[added[0]] != batch.batch[added[1]]
    assert float(across.double().mean()) > 0.5  # the trap
    view = sample_view(batch, Rates(0.5, 0.5), seeded())
    assert torch.equal(batch.batch[view.added.source], batch.batch[view.added.target])


def test_a_seed_of_torch_reproduces_a_view():
    """With a generator, or with the global seed; Python's and NumPy's random numbers are not asked."""
    seen = []
    for python_seed in (1, 2):
        random.seed(python_seed)
        torch.manual_seed(0)
        seen.append((sample_view(ISOLATED, Rates(0.5, 0.5)), sample_view(ISOLATED, Rates(0.5, 0.5), seeded(7))))
    state = random.getstate()
    sample_view(ISOLATED, Rates(0.5, 0.5))
    assert random.getstate() == state
    for one, other in zip(*seen):
        assert torch.equal(one.edge_index, other.edge_index)


def test_a_generator_of_its_own_leaves_the_global_one_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    sample_view(ISOLATED, Rates(0.5, 0.5), seeded())
    assert torch.equal(torch.get_rng_state(), before)


def test_no_layer_keeps_its_first_view():
    torch.manual_seed(0)
    theirs, x = PyGGCNConv(3, 2, cached=True), torch.randn(5, 3)
    assert torch.equal(theirs(x, PATH.edge_index), theirs(x, PATH.edge_index[:, :2]))  # the trap
    with pytest.raises(ValueError, match="cached=True"):
        rade.nn.GCNConv(3, 2, cached=True)
    ours, rates, generator = rade.nn.GCNConv(3, 2), Rates(0.5, 0.5), seeded()
    outputs = [ours(x, sample_view(PATH, rates, generator)) for _ in range(2)]
    assert not torch.equal(*outputs)


def test_attention_knows_its_self_loops():
    """GATConv adds them by default: clean output equals PyG's, and the correction keeps the loop's share unbiased."""
    torch.manual_seed(0)
    theirs = PyGGATConv(3, 2).double()
    assert theirs.add_self_loops  # the trap
    ours = rade.nn.GATConv(3, 2).double()
    ours.load_state_dict(theirs.state_dict())
    x = normal(5, 3)
    assert error(ours(x, PATH), theirs(x, PATH.edge_index)) <= 1e-10
    many = copies(PATH, 5_000)
    view = sample_view(many, Rates(0.3, 0.1), seeded())
    mean = ours(x.repeat(5_000, 1), view).view(5_000, 5, 2).mean(0)
    clean = theirs(x, PATH.edge_index)
    uncorrected = sample(Law(many, Rates(0.3, 0.1), "none", generator=seeded()))
    plain = ours(x.repeat(5_000, 1), uncorrected)
    assert error(mean, clean) < 0.5 * error(plain.view(5_000, 5, 2).mean(0), clean)


def test_inputs_are_not_changed():
    edge_index, x = RING.clone(), torch.randn(4, 3)
    before = x.clone()
    rade.nn.GCNConv(3, 2)(x, sample_view(Graph.from_edge_index(edge_index), Rates(0.5, 0.5), seeded()))
    assert torch.equal(edge_index, RING)
    assert torch.equal(x, before)


def test_a_dropped_edge_is_never_added_again():
    """Drop and add do not cancel out: additions come from the non-edges of the clean graph."""
    graph = copies(ISOLATED, 1000)
    view = sample_view(graph, Rates(0.9, 1.0), seeded())
    keys = graph.pattern.target * graph.num_nodes + graph.pattern.source
    added = view.added.target * graph.num_nodes + view.added.source
    assert not bool(torch.isin(added, keys).any())
