"""Whole layers keep their expectation: the mean over all views of a small graph is what evaluation computes.

By moments a sum has one view. By pairs of views it has two, a(G) + a(G') − a(G''), and a may be any aggregation.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

from core.driving import AllDraws, on_views
from rade import Graph, Rates, Views
from rade.nn.context import BatchVectors
from rade.testing.aggregators import normal
from rade.testing.oracle import directed, error, undirected
from zoo import EVERY, random_edges, seeded, stacked

IN, OUT, DIM = 3, 2, 2
RATES, DROPS = Rates(0.3, 0.2), Rates(0.4, 0.0)
TAIL = undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 4)
GRAPHS = {
    "tail": TAIL,
    "short": undirected([(0, 1), (1, 2)], 3),
    "one-way": directed([(0, 1), (1, 2), (2, 0), (3, 0), (0, 3)], 4),
    "mixed": undirected([(0, 2), (1, 3), (1, 4)], 5, [0, 1, 0, 1, 1]),  # nodes do not come graph by graph
    "looped": directed([(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 3)], 4, directed=False),
    "repeated": undirected([(0, 1), (0, 1), (1, 2), (2, 3)], 4),
}
SIMPLE, ODD = ("tail", "one-way", "mixed"), ("looped", "repeated")
PNA = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
SEVERAL: dict[str, tuple[Any, int]] = {  # layers of several steps, and how many
    "APPNP-2": (lambda: pyg.APPNP(2, 0.2), 2),
    "SGConv-2": (lambda: pyg.SGConv(IN, OUT, K=2), 2),
    "TAGConv-3": (lambda: pyg.TAGConv(IN, OUT, K=3), 3),
    "SSGConv-2": (lambda: pyg.SSGConv(IN, OUT, alpha=0.2, K=2), 2),
    "MixHopConv-2": (lambda: pyg.MixHopConv(IN, OUT, powers=[0, 1, 2]), 2),
    "ChebConv-3": (lambda: pyg.ChebConv(IN, OUT, K=3), 2),
}


class Own(pyg.MessagePassing):
    """With a weight of edges by a name of its own: what has as many rows as there are edges, and not nodes."""

    def forward(self, x: Tensor, edge_index: Tensor, w: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, w=w)

    def message(self, x_j: Tensor, w: Tensor) -> Tensor:
        return w[:, None] * x_j


BY_PAIRS = {
    "SAGE-max": lambda: pyg.SAGEConv(IN, OUT, aggr="max"),
    "SAGE-median": lambda: pyg.SAGEConv(IN, OUT, aggr="median"),
    "PNA": lambda: pyg.PNAConv(IN, OUT, deg=torch.tensor([0, 2, 2]), **PNA),
    "EdgeConv": lambda: pyg.EdgeConv(Sequential(Linear(2 * IN, 4), ReLU(), Linear(4, OUT))),
    "GATv2": lambda: pyg.GATv2Conv(IN, OUT, heads=2),
    "GCN": lambda: pyg.GCNConv(IN, OUT),
    "Cluster": lambda: pyg.ClusterGCNConv(IN, OUT),
    "target-to-source": lambda: pyg.GraphConv(IN, OUT, flow="target_to_source"),
}
WITH_VALUES: dict[str, tuple[Any, int]] = {  # of edges: the width of attributes, or 0 for weights
    "GATv2-attributes": (lambda: pyg.GATv2Conv(IN, OUT, edge_dim=DIM), DIM),
    "GAT-max-of-loops": (lambda: pyg.GATConv(IN, OUT, edge_dim=DIM, fill_value="max"), DIM),
    "NNConv": (lambda: pyg.NNConv(IN, OUT, Linear(DIM, IN * OUT)), DIM),
    "GCN-weights": (lambda: pyg.GCNConv(IN, OUT), 0),
    "GCN-no-loops-weights": (lambda: pyg.GCNConv(IN, OUT, add_self_loops=False), 0),
    "GraphConv-mean-weights": (lambda: pyg.GraphConv(IN, OUT, aggr="mean"), 0),
    "own-name": (Own, 0),
    "GraphConv-max-weights": (lambda: pyg.GraphConv(IN, OUT, aggr="max"), 0),
}
BUILD = {name: lambda b=build: b(IN, OUT) for name, build in EVERY.items()} | BY_PAIRS
BUILD |= {name: build for name, (build, _) in (SEVERAL | WITH_VALUES).items()}
CASES = [  # how often a view is drawn, where that is known
    *((name, graph, way, 1) for name in EVERY for graph in SIMPLE for way in ("of", "ofs")),
    *((name, graph, "of", None) for name in EVERY for graph in ODD),
    *((name, "short", way, steps) for name, (_, steps) in SEVERAL.items() for way in ("of", "ofs")),
    *((name, "short", "pairs", 4) for name in ("SGConv-2", "MixHopConv-2", "ChebConv-3")),
    *((name, graph, "pairs", 2) for name in (*BY_PAIRS, *WITH_VALUES) for graph in (*SIMPLE, *ODD)),
    *((name, graph, "of", None) for name in WITH_VALUES for graph in (*SIMPLE, *ODD)),
]
CASES.remove(("ChebConv", "one-way", "ofs", 1))
CASES[CASES.index(("ChebConv", "one-way", "of", 1))] = ("ChebConv", "one-way", "of", 2)  # by pairs of views


@pytest.mark.parametrize(("name", "graph", "way", "draws"), CASES)
def test_the_mean_over_all_views_is_what_evaluation_computes(monkeypatch, name, graph, way, draws):
    """Up to 64² outcomes, to the tolerance of attention and of PyG's own single precision; RADE-OF is PyG's layer."""
    data, rates = GRAPHS[graph], DROPS if graph == "one-way" else RATES  # twelve ordered pairs have too many views
    plain, x, values = seeded(BUILD[name]).double(), normal(data.num_nodes, IN), of_edges(data, name)
    layer, context = on_views(plain, rates, *("pairs", "of") if way == "pairs" else ("moments", way))
    everything = AllDraws(data, rates, draws or 2)
    mean = everything.mean(monkeypatch, layer, context, x, *values)
    clean = plain(x, data.given, *values).detach()
    with context.running(BatchVectors([data.batch])):
        evaluated = layer.eval()(x, data.given, *values).detach()
    attends = way != "pairs" and any(word in name for word in ("GAT", "Transformer"))
    assert error(mean, evaluated) <= (1e-3 if attends else 1e-6 if draws != 1 and name != "own-name" else 1e-8)
    assert everything.drawn == draws or draws is None
    assert (error(evaluated, clean) <= 1e-6) is (way != "ofs" or rates.q == 0.0)  # additions stay


def of_edges(graph: Graph, name: str) -> list[Tensor]:
    """Attributes, or positive weights, of both directions of an edge apart."""
    if name not in WITH_VALUES:
        return []
    count, width = graph.num_given, WITH_VALUES[name][1]
    return [normal(count, width, seed=3) if width else normal(count, seed=3).exp()]


def two(same: bool) -> torch.nn.Module:
    """Two linear layers, or the same one twice."""
    first = pyg.GCNConv(IN, IN, bias=False)
    return stacked(first, first if same else pyg.GCNConv(IN, IN, bias=False))


@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("shared", [False, True], ids=["a view for each", "one view"])
@pytest.mark.parametrize("same", [False, True], ids=["two layers", "one layer twice"])
def test_every_call_of_a_layer_has_a_view_of_its_own(monkeypatch, same, shared, variant):
    """All 64² pairs of views; one view for both, as `Views(shared=True)` says, has another mean."""
    layer, context = on_views(seeded(lambda: two(same)).double(), RATES, variant=variant)
    context.setting = replace(context.setting, views=Views(shared=shared))
    everything, x = AllDraws(TAIL, RATES, 1 if shared else 2), normal(4, IN)
    mean = everything.mean(monkeypatch, layer, context, x)
    assert everything.drawn == (1 if shared else 2)
    with context.running():
        away = error(mean, layer.eval()(x, TAIL.edge_index).detach())
    assert away > 0.05 if shared else away <= 1e-8


def test_an_uncorrected_view_is_the_layer_on_its_edges():
    """One view for each call: variant="none" is DropEdge for layers without moments too."""
    plain, x = seeded(BY_PAIRS["SAGE-max"]).double(), normal(4, IN)
    layer, context = on_views(plain, Rates(0.5, 0.0), variant="none")
    for _ in range(5):
        with context.running() as present:
            out = layer(x, TAIL.edge_index)
        (view,) = present.views.values()
        assert error(out, plain(x, view.edge_index)) <= 1e-12


@pytest.mark.parametrize("variant", ["of", "none"])
def test_views_of_sorted_edges_are_sorted(variant):
    """By the node that receives, as an LSTM over neighbors needs them."""
    plain = seeded(lambda: pyg.SAGEConv(IN, OUT, aggr="lstm")).double()
    layer, context = on_views(plain, Rates(0.9, 0.0), variant=variant)
    for edges in (random_edges(40, 100).flip(0), torch.tensor([[1, 0], [0, 1]])):  # of which nothing may be left
        with context.running(None):
            assert bool(layer(normal(40, IN), edges).isfinite().all())


DROPPING = {
    "GATv2": lambda: pyg.GATv2Conv(IN, OUT, dropout=0.6),
    "EdgeConv": lambda: pyg.EdgeConv(Sequential(Linear(2 * IN, OUT), torch.nn.Dropout(0.6)), aggr="mean"),
}


@pytest.mark.parametrize("name", DROPPING)
def test_a_layer_by_pairs_has_its_own_dropout_once(name):
    """Drawn anew on each view it would have three times the variance; 200 draws at small rates, seed fixed.

    The mean ratio over 80 outputs has a standard deviation of about 0.02.
    """
    plain = seeded(DROPPING[name]).double()
    layer, context = on_views(plain, Rates(0.02, 0.0), "pairs")
    x, edges = normal(40, IN), random_edges(40, 300)
    torch.manual_seed(0)
    with torch.no_grad(), context.running(None):
        ours = torch.stack([layer(x, edges) for _ in range(200)]).var(0)
        theirs = torch.stack([plain.train()(x, edges) for _ in range(200)]).var(0)
    assert float((ours / theirs).mean()) < 1.5


def test_running_statistics_are_of_the_clean_graph():
    """Batch norm inside a layer by pairs: once for each call, although views have statistics of their own."""
    plain = seeded(lambda: pyg.EdgeConv(Sequential(Linear(2 * IN, 4), torch.nn.BatchNorm1d(4), Linear(4, OUT))))
    layer, context = on_views(plain.double(), RATES, "pairs")
    x, edges = normal(40, IN), random_edges(40, 100)
    for _ in range(3):
        with context.running(None):
            layer(x, edges).sum().backward()
        plain.train()(x, edges)
    assert all(torch.equal(one, other) for one, other in zip(layer.buffers(), plain.buffers(), strict=True))
