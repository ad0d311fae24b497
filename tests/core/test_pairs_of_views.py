"""Layers without moments, by pairs of views: a(G) + a(G') − a(G'') has the mean a(G), whatever a is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

from core.driving import AllDraws, Given, given, on_views
from rade import Correction, Graph, Rates, View
from rade.nn.context import Context
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from rade.wrapper.conversion import convert
from zoo import random_edges, seeded

IN, OUT, DIM = 3, 2, 2
RATES, DROPS = Rates(0.3, 0.2), Rates(0.4, 0.0)
PATH = given([(0, 1), (1, 2), (2, 3)])
SHORT = given([(0, 1), (1, 2)], 3)
ONE_WAY = given([(0, 1), (1, 2), (2, 0), (3, 0), (0, 3)], both=False)
TWO_GRAPHS = given([(0, 2), (1, 3), (1, 4)], 5, [0, 1, 0, 1, 1])  # nodes do not come graph by graph
LOOPED = given([(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)])
REPEATED = given([(0, 1), (0, 1), (1, 2), (2, 3)])
GRAPHS = {"path": PATH, "one-way": ONE_WAY, "two graphs": TWO_GRAPHS, "looped": LOOPED, "repeated": REPEATED}

EDGE_CONV = Sequential(Linear(2 * IN, 4), ReLU(), Linear(4, OUT))
PNA = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
ONE_STEP = {
    "SAGE-max": lambda: pyg.SAGEConv(IN, OUT, aggr="max"),
    "PNA": lambda: pyg.PNAConv(IN, OUT, deg=torch.tensor([0, 2, 2]), **PNA),
    "EdgeConv": lambda: pyg.EdgeConv(copy.deepcopy(EDGE_CONV)),
    "GATv2": lambda: pyg.GATv2Conv(IN, OUT, heads=2),
    "GCN": lambda: pyg.GCNConv(IN, OUT),
    "target-to-source": lambda: pyg.GraphConv(IN, OUT, flow="target_to_source"),
}
TWO_STEPS = {
    "SG": lambda: pyg.SGConv(IN, OUT, K=2),
    "Cheb": lambda: pyg.ChebConv(IN, OUT, K=3),
    "TAG": lambda: pyg.TAGConv(IN, OUT, K=2),
    "MixHop": lambda: pyg.MixHopConv(IN, OUT, powers=[0, 1, 2]),
}
OF_EDGES = {
    "GATv2-attributes": (lambda: pyg.GATv2Conv(IN, OUT, edge_dim=DIM), DIM),
    "Transformer": (lambda: pyg.TransformerConv(IN, OUT, edge_dim=DIM), DIM),
    "NNConv": (lambda: pyg.NNConv(IN, OUT, Linear(DIM, IN * OUT)), DIM),
    "GCN-weights": (lambda: pyg.GCNConv(IN, OUT), 0),
    "GraphConv-max": (lambda: pyg.GraphConv(IN, OUT, aggr="max"), 0),
}


class Bonds(pyg.MessagePassing):
    """A layer of one's own, the largest message along edges of three kinds."""

    def __init__(self) -> None:
        super().__init__(aggr="max")
        self.kinds = torch.nn.Embedding(3, IN)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        out: Tensor = self.propagate(edge_index, x=x, kind=self.kinds(edge_attr))
        return out

    def message(self, x_j: Tensor, kind: Tensor) -> Tensor:
        return x_j * kind


def of_edges(graph: Given, width: int) -> Tensor:
    """Attributes, or positive weights, of both directions of an edge apart."""
    count = graph.edge_index.shape[1]
    return normal(count, width, seed=3) if width else normal(count, seed=3).exp()


def check(monkeypatch: Any, build: Any, graph: Given, draws: int, by: str, *edges: Tensor, rates: Any = None) -> None:
    """All outcomes: the mean in training is PyG's own output, and exactly as many views are drawn."""
    rates = rates or (DROPS if graph is ONE_WAY else RATES)  # twelve ordered pairs have too many views
    plain, x = seeded(build).double(), normal(graph.nodes, IN)
    layer, context = on_views(plain, rates, by)
    everything = AllDraws(graph, rates, draws)
    found = everything.mean(monkeypatch, layer, context, x, *edges)
    assert error(found, plain(x, graph.edge_index, *edges).detach()) <= (1e-6 if by == "pairs" else 1e-4)
    assert everything.drawn == draws or by == "moments"


def watched(monkeypatch: Any, build: Any, rates: Rates = RATES) -> tuple[Any, Any, list[View]]:
    """A layer, the same on views, and the views that it draws from here on."""
    plain, drawn, draw = seeded(build).double(), [], Context.draw
    monkeypatch.setattr(Context, "draw", lambda self, of: drawn.append(draw(self, of)) or drawn[-1])
    return plain, on_views(plain, rates, "pairs", seed=1)[0], drawn


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", ONE_STEP)
def test_the_mean_over_all_pairs_of_views_is_the_clean_layer(monkeypatch, name, graph):
    """Up to 64 views, and all their pairs."""
    check(monkeypatch, ONE_STEP[name], GRAPHS[graph], 2, "pairs")


@pytest.mark.parametrize(("graph", "rates"), [(PATH, DROPS), (SHORT, RATES), (LOOPED, DROPS)], ids=["4", "3", "loops"])
@pytest.mark.parametrize("name", TWO_STEPS)
def test_every_step_has_a_pair_of_its_own(monkeypatch, name, graph, rates):
    """All 8⁴ outcomes of four views; the second step sums what the first one gave, not what it has on a view."""
    check(monkeypatch, TWO_STEPS[name], graph, 4, "pairs", rates=rates)


@pytest.mark.parametrize("by", ["moments", "pairs"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", OF_EDGES)
def test_layers_with_values_of_edges(monkeypatch, name, graph, by):
    build, width = OF_EDGES[name]
    check(monkeypatch, build, GRAPHS[graph], 2, by, of_edges(GRAPHS[graph], width))


@pytest.mark.parametrize("name", ONE_STEP)
def test_moments_are_taken_where_a_layer_has_them(monkeypatch, name):
    """One view each; by pairs two, if one says so or there is no other way."""
    _, layer, drawn = watched(monkeypatch, ONE_STEP[name])
    layer._context.setting = replace(layer._context.setting, correction=Correction())
    layer(normal(4, IN), PATH.edge_index)
    assert len(drawn) == (1 if name in ("GATv2", "GCN") else 2)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", ONE_STEP)
def test_a_pair_is_the_layer_on_the_edges_of_two_views(monkeypatch, name, graph):
    """Self-loops are always kept, and all of a repeated edge or none; with the gradients of the three sums."""
    plain, layer, drawn = watched(monkeypatch, ONE_STEP[name])
    data = GRAPHS[graph]
    x = normal(data.nodes, IN).requires_grad_()
    with layer._context.running(data.batch):
        out = layer(x, data.edge_index)
    indices = [data.edge_index, *(edges_of(view, data)[0] for view in drawn)]
    parts = [plain(x, indices[k]) for k in range(3)]
    expected = parts[0] + parts[1] - parts[2]
    assert error(out, expected) <= 1e-12
    direction = normal(*out.shape, seed=1)
    slopes = [torch.autograd.grad((each * direction).sum(), x)[0] for each in (out, expected)]
    assert error(*slopes) <= 1e-12


def edges_of(view: View, data: Given) -> tuple[Tensor, Tensor]:
    """The edges of a view as they would be given, kept ones in the caller's order, and which these are."""
    there = torch.zeros(data.nodes, data.nodes, dtype=torch.bool)
    there[tuple(view.edge_index)] = True
    source, target = data.edge_index
    kept = (there[source, target] | (source == target)).nonzero().squeeze(1)
    added = torch.stack([view.added.source, view.added.target])
    return torch.cat([data.edge_index[:, kept], added], 1), kept


@pytest.mark.parametrize(
    ("name", "how"), [("NNConv", "mean"), ("NNConv", torch.tensor([1.0, -2.0])), ("GraphConv-max", 0.7), ("Bonds", "")]
)
def test_additions_have_what_is_usual_in_their_graph(monkeypatch, name, how):
    """The mean of its edges, the most frequent kind of them, or what the layer was told."""
    build, width = OF_EDGES.get(name, (Bonds, 0))
    plain, layer, drawn = watched(monkeypatch, build, Rates(0.3, 0.5))
    data = given([(0, 2), (1, 3), (1, 4)], 8, [0, 1, 0, 1, 1, 0, 1, 0])
    values = torch.tensor([0, 2, 2, 0, 2, 1]) if name == "Bonds" else of_edges(data, width)
    of_graph = data.batch[data.edge_index[1]]
    usual = torch.stack([values[of_graph == g].double().mean(0) for g in (0, 1)])
    if name == "Bonds":
        usual = torch.tensor([0, 2])
    elif isinstance(how, float):
        layer.added_weight, usual = how, torch.full((2,), how, dtype=torch.double)
    elif isinstance(how, Tensor):
        layer.added_attr, usual = how, how.expand(2, -1).double()
    x = normal(data.nodes, IN)
    with layer._context.running(data.batch):
        out = layer(x, data.edge_index, values)
    parts = [plain(x, data.edge_index, values)]
    for view in drawn:
        edges, kept = edges_of(view, data)
        parts.append(plain(x, edges, torch.cat([values[kept], usual[data.batch[view.added.target]]])))
    assert not torch.equal(drawn[0].added.target, drawn[1].added.target)  # else they cancel
    assert error(out, parts[0] + parts[1] - parts[2]) <= 1e-12


NODES, COPIES = 20, 2048
OTHERS = {
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(IN, OUT), 0),
    "LEConv": (lambda: pyg.LEConv(IN, OUT), 0),
    "FeaStConv": (lambda: pyg.FeaStConv(IN, OUT, heads=2), 0),
    "EGConv": (lambda: pyg.EGConv(IN, OUT, aggregators=["max", "var"], num_heads=2, num_bases=2), 0),
    "CGConv": (lambda: pyg.CGConv(IN, dim=DIM), DIM),
    "SuperGATConv": (lambda: pyg.SuperGATConv(IN, OUT), 0),
    "RGCNConv": (lambda: pyg.RGCNConv(IN, OUT, 3, aggr="max"), -1),  # kinds of edges, each with views of its own
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_average_to_the_clean_layer(name):
    """2,048 drawn pairs on 20 nodes: |z| ≤ 6 of up to 60 outputs, exceeded by chance in one of 10⁷ runs."""
    build, width = OTHERS[name]
    graph = Given(random_edges(NODES, 40), NODES, torch.zeros(NODES, dtype=torch.long))
    plain, x = seeded(build).double(), normal(NODES, IN)
    edges = [of_edges(graph, width)] if width > 0 else [graph.edge_index.sum(0) % 3] if width else []
    layer, context = on_views(plain, Rates(0.3, 0.05))
    many = graph.copies(COPIES)
    with torch.no_grad(), context.running(many.batch):
        repeated = [value.repeat(COPIES, *[1] * (value.dim() - 1)) for value in edges]
        out = layer(x.repeat(COPIES, 1), many.edge_index, *repeated)
    unbiased(out.view(COPIES, NODES, -1), plain.eval()(x, graph.edge_index, *edges).detach())


def unbiased(seen: Tensor, clean: Tensor) -> None:
    z = (seen.mean(0) - clean) / (seen.std(0) / len(seen) ** 0.5)
    assert float(z.abs().max()) <= 6.0
    assert float(seen.std(0).min()) > 0.0


def test_bipartite_layers_average_to_the_clean_layer():
    """1,000 pairs between 9 senders and 5 receivers: |z| ≤ 6 of ten outputs; seed fixed."""
    plain, x = seeded(lambda: pyg.SAGEConv((IN, IN), OUT, aggr="max")).double(), (normal(9, IN), normal(5, IN, seed=1))
    edges = torch.stack([torch.arange(15) % 9, torch.arange(15) % 5])
    layer, context = on_views(plain, RATES)
    context.shares = lambda: (0.3, 0.5)
    with torch.no_grad():
        unbiased(torch.stack([layer(x, edges) for _ in range(1000)]), plain.eval()(x, edges))


ODD = {"one-way": ONE_WAY, "looped": LOOPED, "repeated": REPEATED, "two graphs": TWO_GRAPHS}
PLAIN = {
    "GCN": lambda: pyg.GCNConv(IN, OUT),
    "GCN-no-loops": lambda: pyg.GCNConv(IN, OUT, add_self_loops=False),
    "GIN": lambda: pyg.GINConv(Linear(IN, OUT)),
    "SAGE": lambda: pyg.SAGEConv(IN, OUT),
    "GAT": lambda: pyg.GATConv(IN, OUT, heads=2),
    "GAT-no-loops": lambda: pyg.GATConv(IN, OUT, add_self_loops=False),
    "Cluster": lambda: pyg.ClusterGCNConv(IN, OUT),
    "SAGE-max": ONE_STEP["SAGE-max"],
    "Cheb": lambda: pyg.ChebConv(IN, OUT, K=2),
}


@pytest.mark.parametrize("graph", ODD)
@pytest.mark.parametrize("name", PLAIN)
def test_odd_graphs_evaluate_as_pyg_and_train_without_bias(monkeypatch, name, graph):
    """Evaluation is PyG's code itself, and after training, by RADE's sums where it may be, the same to rounding."""
    data, plain = ODD[graph], seeded(PLAIN[name]).double().eval()
    rates, x = (DROPS if graph == "one-way" else RATES), normal(data.nodes, IN)
    layer, context = on_views(plain, rates)
    expected = plain(x, data.edge_index)
    assert torch.equal(layer.eval()(x, data.edge_index), expected)
    everything = AllDraws(data, rates, 2)
    mean = everything.mean(monkeypatch, layer.train(), context, x)
    assert error(mean, expected.detach()) <= (1e-4 if "GAT" in name else 1e-6)
    monkeypatch.undo()
    with context.running(data.batch):
        layer(x, data.edge_index)
    with context.running(data.batch):
        tolerance = 1e-6 if name == "Cluster" else 1e-10  # PyG's own sums in single precision there
        assert error(layer.eval()(x, data.edge_index), expected) <= tolerance


@pytest.mark.parametrize("name", ONE_STEP)
def test_a_graph_as_edge_index(name):
    """Sorted inside, but values of edges follow the caller: evaluation, no rates, and no wrapper at all are PyG's."""
    shuffled = PATH.edge_index[:, torch.tensor([4, 2, 0, 5, 1, 3])]
    graph, plain, x = Graph.from_edge_index(shuffled, 4), seeded(ONE_STEP[name]).double(), normal(4, IN)
    expected = plain(x, shuffled)
    assert error(convert(copy.deepcopy(plain))(x, graph), expected) <= 1e-12
    for by in ("moments", "pairs"):
        layer, _ = on_views(plain, Rates(0.0, 0.0), by)
        assert error(layer(x, graph), expected) <= (1e-4 if name == "GATv2" else 1e-12)
        assert error(layer.eval()(x, graph), expected) <= 1e-12


def test_values_of_edges_on_a_graph_as_edge_index():
    shuffled = PATH.edge_index[:, torch.tensor([4, 2, 0, 5, 1, 3])]
    plain, x, weight = seeded(OF_EDGES["GraphConv-max"][0]).double(), normal(4, IN), of_edges(PATH, 0)
    layer, context = on_views(plain, Rates(0.5, 0.0))
    views = Context.views_for(context, layer, graph := Graph.from_edge_index(shuffled, 4), "views")
    assert views(0).graph is graph
    outs = []
    for edges in (graph, shuffled):
        context.generator.manual_seed(0)
        outs.append(layer(x, edges, weight))
    assert error(*outs) <= 1e-12
    with pytest.raises(ValueError, match=r"GraphConv has no moments, MaxAggregation is no weighted sum.*rade\.RADE"):
        convert(copy.deepcopy(plain))(x, views(0), weight)
