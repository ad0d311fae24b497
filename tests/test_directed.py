"""Directed graphs: said explicitly, each direction drawn by itself, PyG's own layers at inference, rates that adapt."""

from __future__ import annotations

import copy

import pytest
import torch
from rade.control.all_layers import AllLayers
from rade.control.recording import Recorded
from rade.view import MeanView, sample
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_mean_pool

import rade
from adapting import adapting
from rade import Graph, Law, Rates, Views
from rade.correction import propagate
from rade.moments import Sum, Symmetric
from rade.testing import AllViews
from rade.testing.oracle import GRAPHS, adjacency, error
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded, training_step

NODES = 40
X, LABELS = normal(NODES, 8), torch.arange(NODES) % 3
BOTH = random_edges(NODES, 90)
EDGES = BOTH[:, (BOTH[0] < BOTH[1]) | (BOTH.sum(0) % 5 == 0)]  # most in one direction, some in both
DIRECTED = Views(directed=True)
BUILDS = {name: build for name, build in (LAYERS | ATTENTION).items() if name != "ChebConv"}


@pytest.mark.parametrize("name", BUILDS)
def test_wrapped_models_train_adapt_and_infer_as_pyg(name):
    """One line; evaluation on a directed edge_index is the plain model's, training calls differ, both rates move."""
    plain = seeded(lambda: Net(BUILDS[name])).eval()
    model = adapting(copy.deepcopy(plain), views=DIRECTED)
    first = model.rates
    for _ in range(3):
        training_step(model, X, EDGES, labels=LABELS)
        model.adapt()
    density = EDGES.shape[1] / (NODES * (NODES - 1))
    assert float(model.controller.density) == pytest.approx(density)
    assert model.rates.p != first.p
    assert model.rates.q != pytest.approx(0.5 * density)
    one, two = model.train()(X, EDGES), model(X, EDGES)
    assert not torch.equal(one, two)
    torch.testing.assert_close(model.eval()(X, EDGES), plain(X, EDGES))


def test_a_symmetric_edge_index_may_be_taken_as_directed():
    """Then its directions part: in a view of a ring of edges some have lost one only."""
    graph = Graph.from_edge_index(BOTH, NODES, directed=True)
    view = sample(Law(graph, Rates(0.5, 0.0), generator=torch.Generator().manual_seed(0)))
    kept = torch.zeros(NODES, NODES, dtype=torch.bool)
    kept[tuple(view.edge_index)] = True
    assert bool((kept != kept.mT).any())
    assert graph.num_edges == BOTH.shape[1]
    twin = Graph.from_edge_index(BOTH, NODES)
    assert (twin.directed, graph.directed) == (False, True)
    assert graph.density == twin.density


def test_what_was_not_said_is_refused():
    """A one-way edge_index by accident; an undirected Graph where directed views are asked for."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    with pytest.raises(ValueError, match=r"no reverse.*to_undirected.*subgraph_type=.*rade.Views\(directed=True\)"):
        adapting(copy.deepcopy(net)).train()(X, EDGES)
    model = adapting(copy.deepcopy(net), views=DIRECTED).train()
    with pytest.raises(ValueError, match=r"built as undirected.*Graph.from_edge_index\(..., directed=True\)"):
        model(X, Graph.from_edge_index(BOTH, NODES))
    built = Graph.from_edge_index(EDGES, NODES, directed=True)
    adapting(copy.deepcopy(net)).train()(X, built)  # a Graph says it itself


def test_parts_of_a_batch_are_batches():
    """`pick` on a directed batch, forward and backward."""
    whole, x = GRAPHS["directed-batch"], normal(6, 3, dtype=torch.double).requires_grad_()
    part = whole.pick(torch.tensor([1]))
    alone = Graph.from_edge_index(torch.tensor([[0, 1, 0], [1, 0, 2]]), 3, directed=True)
    assert torch.equal(part.edge_index, alone.edge_index)
    assert part.directed
    out = [propagate(g, Symmetric(g, torch.double), x[3:]).square().sum() for g in (part, alone)]
    slopes = [torch.autograd.grad(value, x)[0] for value in out]
    assert torch.equal(out[0], out[1])
    assert torch.equal(slopes[0], slopes[1])


def test_pooled_graphs():
    """A batch of directed graphs with mean pooling: additions stay within graphs, rates adapt."""

    class Pooled(Net):
        def forward(self, x, edge_index, batch):
            return self.head(global_mean_pool(self.convs[0](x, edge_index).relu(), batch))

    graphs = [Data(x=normal(7, 8, seed=k), edge_index=EDGES[:, (EDGES < 7).all(0)]) for k in range(6)]
    batch = Batch.from_data_list(graphs)
    net = seeded(lambda: Pooled(LAYERS["GCNConv"], layers=1))
    model = adapting(net, views=DIRECTED, readout=rade.Readout(pool="mean"))
    training_step(model, batch.x, batch.edge_index, batch=batch.batch, labels=torch.arange(6) % 3)
    before = model.rates
    model.adapt()
    assert model.rates.p != before.p


def spread_of(kind: type, law: Law) -> tuple[float, float]:
    """Var(Σ ⟨g_i, a_i⟩) as `response` has it, averaged over all views, and as all views have it."""
    graph = law.graph
    x, g = normal(graph.num_nodes, 2, dtype=torch.double), normal(graph.num_nodes, 2, seed=1, dtype=torch.double)
    views = AllViews(law)
    forms = (views.aggregate(lambda there, carry, dtype: kind(there, dtype), x) * g).sum((1, 2))
    coefficients, found = kind(graph, torch.double), 0.0
    for k in range(60):
        view = sample(Law(graph, law.rates, law.variant, generator=torch.Generator().manual_seed(k)))
        output = torch.zeros_like(x, requires_grad=True)
        call = Recorded(view, coefficients, x, output)
        drop, add = AllLayers((output * g).sum()[None, None], [call], [call]).variance(law, torch.ones(1, 1).double())
        found += float(drop + add) / 60
    return found, float(views.variance(forms))


@pytest.mark.parametrize(("kind", "allowed"), [(Sum, 1e-9), (Symmetric, 0.1)])
def test_the_answer_to_one_pair(kind, allowed):
    """Exact for sums; with in-degrees at both ends to first order: within a tenth at q = 0, where nothing is drawn."""
    law = Law(GRAPHS["directed"], Rates(0.3, 0.0), "of")
    found, enumerated = spread_of(kind, law)
    assert found == pytest.approx(enumerated, rel=allowed)


def test_transposes_of_sums_over_non_edges():
    graph = GRAPHS["directed-sources"]
    mean = Symmetric(graph, torch.double).mean(Law(graph, Rates(0.3, 0.2)))
    dense = mean.nonedges.apply(torch.eye(4, dtype=torch.double))
    assert error(mean.nonedges.transposed(torch.eye(4, dtype=torch.double)), dense.t()) <= 1e-12
    assert error(dense, dense.t()) > 0.1  # otherwise this shows nothing
    assert torch.equal(dense != 0, ~adjacency(graph) & ~torch.eye(4, dtype=torch.bool))


def test_inference_keeps_expected_additions():
    """RADE-OFS at inference is the mean over views, on a directed graph as well (one linear layer, enumerated)."""
    graph = GRAPHS["directed-batch"]
    views = AllViews(Law(graph, Rates(0.3, 0.2), "ofs"))
    x, coefficients = normal(6, 3, dtype=torch.double), Symmetric(graph, torch.double)
    mean = views.mean(views.aggregate(lambda there, carry, dtype: Symmetric(there, dtype), x))
    assert error(mean, propagate(MeanView(views.law), coefficients, x)) <= 1e-8
