"""What a model keeps: graphs by the memory of their edge_index, laws by rates; nothing of it in copies."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv

import rade
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded

NODES = 20
X, EDGES = normal(NODES, 8), random_edges(NODES, 40)


def model_of(layer: str = "GCNConv", variant: str = "ofs") -> rade.RADE:
    return rade.RADE(seeded(lambda: Net((LAYERS | ATTENTION)[layer])), variant)


def test_graphs_are_recalled_by_memory_and_forgotten_with_it():
    model, edges = model_of().eval(), EDGES.clone()  # in training the last call is kept for its rate step
    model(X, edges)
    graph = next(iter(model._graphs._kept.values()))[2]
    model(X, edges.detach())
    model(X, edges[:, :])
    assert len(model._graphs) == 1
    assert model._graph(model._call((X, edges), {})) is graph
    edges[:, :] = EDGES  # written to, with the same numbers: another version
    assert model._graph(model._call((X, edges), {})) is not graph
    assert len(model._graphs) == 1
    del edges
    gc.collect()
    assert len(model._graphs) == 0


def test_only_two_laws_are_kept():
    """Those of training and of evaluation: rates that move must not fill the memory."""
    model = model_of().eval()
    for factor in range(5):
        model.at(rade.Rates(0.1 * factor, 0.1))(X, EDGES)
    assert len(model._laws.memo) == 2


def by_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("way", [copy.deepcopy, by_pickle])
def test_copies_start_with_empty_memories(way):
    model = model_of().train()
    model(X, EDGES)
    other = way(model)
    assert (len(model._graphs), len(other._graphs), len(other._laws.memo)) == (1, 0, 0)
    graph = rade.Graph.from_edge_index(EDGES, NODES)
    model.eval()(X, graph)
    assert len(graph.memo) > 0
    assert len(way(graph).memo) == 0
    assert len(pickle.dumps(graph)) == len(pickle.dumps(rade.Graph.from_edge_index(EDGES, NODES)))


@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GATConv", "GATConv-heads"])
def test_what_inference_mode_computed_serves_training(name):
    """On a bare Graph, whose sorted structures and operators are then kept, and on a view of it."""
    conv = rade.convert(seeded(lambda: (LAYERS | ATTENTION)[name](8, 3)))
    graph = rade.Graph.from_edge_index(EDGES, NODES)
    view = rade.sample_view(graph, rade.Rates(0.5, 0.1), torch.Generator().manual_seed(0))
    with torch.inference_mode():
        clean, perturbed = conv(X, graph), conv(X, view)
    x = X.clone().requires_grad_()
    for adjacency, before in ((graph, clean), (view, perturbed)):
        out = conv(x, adjacency)
        torch.testing.assert_close(out, before)
        (gradient,) = torch.autograd.grad(out.square().sum(), x)
        assert bool(gradient.isfinite().all())


def test_a_converted_gat_trains_after_inference_mode():
    conv = rade.convert(GATConv(8, 3))
    graph = rade.Graph.from_edge_index(EDGES, NODES)
    with torch.inference_mode():
        conv(X, graph)
    conv(X, graph).sum().backward()
    assert all(parameter.grad is not None for parameter in conv.parameters())
