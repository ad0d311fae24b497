"""Whole layers keep their expectation: the mean over all views of a small graph is what evaluation computes.

By moments a sum has one view. By pairs of views it has two, a(G) + a(G') − a(G''), and a may be any aggregation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

from core.driving import AllDraws, Given, given, on_views
from rade import Rates, Views
from rade.nn.context import Context
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from zoo import ATTENTION, EVERY, LAYERS, random_edges, seeded

IN, OUT, DIM = 3, 2, 2
RATES, DROPS = Rates(0.3, 0.2), Rates(0.4, 0.0)
TAIL = given([(0, 1), (1, 2), (2, 0), (2, 3)])
PATH, SHORT = given([(0, 1), (1, 2), (2, 3)]), given([(0, 1), (1, 2)], 3)
ONE_WAY = given([(0, 1), (1, 2), (2, 0), (3, 0), (0, 3)], both=False)
LOOPED, REPEATED = given([(0, 0), (0, 1), (1, 2), (2, 3), (3, 3)]), given([(0, 1), (0, 1), (1, 2), (2, 3)])
SIMPLE = {"tail": TAIL, "one-way": ONE_WAY, "mixed": given([(0, 2), (1, 3), (1, 4), (2, 5)], 6, [0, 1, 0, 1, 1, 0])}
TWO_GRAPHS = given([(0, 2), (1, 3), (1, 4)], 5, [0, 1, 0, 1, 1])  # nodes do not come graph by graph
ODD = {"one-way": ONE_WAY, "looped": LOOPED, "repeated": REPEATED, "two graphs": TWO_GRAPHS}
variants = pytest.mark.parametrize("variant", ["of", "ofs"])

SEVERAL: dict[str, tuple[Any, int]] = {  # layers of several steps, and how many
    "APPNP": (lambda: pyg.APPNP(2, 0.2), 2),
    "SGConv": (lambda: pyg.SGConv(IN, OUT, K=2), 2),
    "TAGConv": (lambda: pyg.TAGConv(IN, OUT, K=3), 3),
    "SSGConv": (lambda: pyg.SSGConv(IN, OUT, alpha=0.2, K=2), 2),
    "MixHopConv": (lambda: pyg.MixHopConv(IN, OUT, powers=[0, 1, 2]), 2),
    "ChebConv": (lambda: pyg.ChebConv(IN, OUT, K=3), 2),
}
PNA = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
BY_PAIRS = {
    "SAGE-max": lambda: pyg.SAGEConv(IN, OUT, aggr="max"),
    "PNA": lambda: pyg.PNAConv(IN, OUT, deg=torch.tensor([0, 2, 2]), **PNA),
    "EdgeConv": lambda: pyg.EdgeConv(Sequential(Linear(2 * IN, 4), ReLU(), Linear(4, OUT))),
    "GATv2": lambda: pyg.GATv2Conv(IN, OUT, heads=2),
    "GCN": lambda: pyg.GCNConv(IN, OUT),
    "Cluster": lambda: pyg.ClusterGCNConv(IN, OUT),
    "target-to-source": lambda: pyg.GraphConv(IN, OUT, flow="target_to_source"),
}
WEIGHTED = ("GCNConv", "GCNConv-no-loops", "GCNConv-sum", "GraphConv", "GraphConv-mean", "SGConv")
OF_EDGES = {
    "GATv2-attributes": (lambda: pyg.GATv2Conv(IN, OUT, edge_dim=DIM), DIM),
    "Transformer": (lambda: pyg.TransformerConv(IN, OUT, edge_dim=DIM), DIM),
    "NNConv": (lambda: pyg.NNConv(IN, OUT, Linear(DIM, IN * OUT)), DIM),
    "GCN-weights": (lambda: pyg.GCNConv(IN, OUT), 0),
    "GraphConv-max": (lambda: pyg.GraphConv(IN, OUT, aggr="max"), 0),
}


def of_edges(graph: Given, width: int) -> Tensor:
    """Attributes, or positive weights, of both directions of an edge apart."""
    count = graph.edge_index.shape[1]
    return normal(count, width, seed=3) if width else normal(count, seed=3).exp()


def check(
    patch: Any, build: Any, data: Given, draws: int | None, *edges: Tensor, variant: str = "of", by: str = "moments",
    rates: Rates | None = None, exact: float = 1e-8,
) -> None:  # fmt: skip
    """All outcomes of so many views: the mean in training is what evaluation computes, and RADE-OF is PyG there."""
    rates = rates or (DROPS if data is ONE_WAY else RATES)  # twelve ordered pairs have too many views
    plain, x = seeded(build).double(), normal(data.nodes, IN)
    layer, context = on_views(plain, rates, by, variant)
    everything = AllDraws(data, rates, draws or 2)
    mean = everything.mean(patch, layer, context, x, *edges)
    clean = plain(x, data.edge_index, *edges).detach()
    with context.running(data.batch):
        evaluated = layer.eval()(x, data.edge_index, *edges).detach()
    assert error(mean, evaluated) <= exact
    assert everything.drawn == draws or draws is None
    assert (error(evaluated, clean) <= 1e-6) is (variant == "of" or rates.q == 0.0)  # additions stay


@variants
@pytest.mark.parametrize("graph", SIMPLE)
@pytest.mark.parametrize("name", EVERY)
def test_one_step_by_moments(monkeypatch, name, graph, variant):
    """Up to 64 views of each graph; attention is exact to its tolerance."""
    if name.startswith("ChebConv") and graph == "one-way":
        pytest.skip("by pairs of views")
    exact = 1e-3 if name in ATTENTION else 1e-8
    check(monkeypatch, lambda: EVERY[name](IN, OUT), SIMPLE[graph], 1, variant=variant, exact=exact)


@variants
@pytest.mark.parametrize("name", WEIGHTED)
def test_edge_weights(monkeypatch, name, variant):
    """Different in both directions, of both signs where degrees are not weighted."""
    weight = normal(TAIL.edge_index.shape[1], seed=1)
    weight = weight if "sum" in name or "Graph" in name else weight.exp()
    check(monkeypatch, lambda: LAYERS[name](IN, OUT), TAIL, 1, weight, variant=variant, exact=1e-7)


@pytest.mark.parametrize("variant", ["of", "ofs", "pairs"])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_steps(monkeypatch, name, variant):
    """A view, or a pair of views, for each: all outcomes on three nodes; by pairs those of two steps."""
    build, steps = SEVERAL[name]
    if variant != "pairs":
        check(monkeypatch, build, SHORT, steps, variant=variant)
    elif steps == 2 and name not in ("APPNP", "SSGConv"):
        check(monkeypatch, build, SHORT, 4, by="pairs", exact=1e-6)


@pytest.mark.parametrize("graph", ["path", *ODD])
@pytest.mark.parametrize("name", BY_PAIRS)
def test_pairs_of_views(monkeypatch, name, graph):
    check(monkeypatch, BY_PAIRS[name], ({"path": PATH} | ODD)[graph], 2, by="pairs", exact=1e-6)


@pytest.mark.parametrize("by", ["moments", "pairs"])
@pytest.mark.parametrize("graph", ["path", *ODD])
@pytest.mark.parametrize("name", OF_EDGES)
def test_layers_with_values_of_edges(monkeypatch, name, graph, by):
    (build, width), data = OF_EDGES[name], ({"path": PATH} | ODD)[graph]
    draws, exact = (2, 1e-6) if by == "pairs" else (None, 1e-3)
    check(monkeypatch, build, data, draws, of_edges(data, width), by=by, exact=exact)


class Two(torch.nn.Module):
    """Two linear layers, or the same one twice."""

    def __init__(self, same: bool) -> None:
        super().__init__()
        self.first = pyg.GCNConv(IN, IN, bias=False)
        self.second = self.first if same else pyg.GCNConv(IN, IN, bias=False)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        out: Tensor = self.second(self.first(x, edge_index), edge_index)
        return out


@variants
@pytest.mark.parametrize("same", [False, True], ids=["two layers", "one layer twice"])
def test_every_call_of_a_layer_has_a_view_of_its_own(monkeypatch, same, variant):
    """All 64² pairs of views; one view for both, as `Views(shared=True)` says, has another mean."""
    check(monkeypatch, lambda: Two(same), TAIL, 2, variant=variant)
    shared, context = on_views(seeded(lambda: Two(same)).double(), RATES, variant=variant)
    context.setting = replace(context.setting, views=Views(shared=True))
    everything, x = AllDraws(TAIL, RATES, 1), normal(4, IN)
    mean = everything.mean(monkeypatch, shared, context, x)
    assert everything.drawn == 1
    assert error(mean, shared.eval()(x, TAIL.edge_index).detach()) > 0.05


def test_uncorrected_views_are_far_from_evaluation(monkeypatch):
    """The power of these tests: without the correction the bias of a GCN is a fifth and more."""
    plain, x = seeded(lambda: pyg.GCNConv(IN, OUT)).double(), normal(4, IN)
    layer, context = on_views(plain, RATES, variant="none")
    mean = AllDraws(TAIL, RATES, 1).mean(monkeypatch, layer, context, x)
    assert error(mean, plain(x, TAIL.edge_index).detach()) > 0.05


@pytest.mark.parametrize("name", ["SAGE-max", "GATv2"])
def test_an_uncorrected_view_is_the_layer_on_its_edges(monkeypatch, name):
    """One view for each call: variant="none" is DropEdge for layers without moments too."""
    plain, x = seeded(BY_PAIRS[name]).double(), normal(4, IN)
    layer, _ = on_views(plain, Rates(0.5, 0.0), variant="none")
    seen, draw = [], Context.draw
    monkeypatch.setattr(Context, "draw", lambda self, of: seen.append(draw(self, of)) or seen[-1])
    for _ in range(5):
        out = layer(x, TAIL.edge_index)
        assert error(out, plain(x, seen[-1].edge_index)) <= 1e-12
    assert len(seen) == 5


@pytest.mark.parametrize("graph", ODD)
@pytest.mark.parametrize("name", EVERY)
def test_odd_graphs(monkeypatch, name, graph):
    """Self-loops, repeated edges, mixed batches: some sums then have no moments."""
    check(monkeypatch, lambda: EVERY[name](IN, OUT), ODD[graph], None, exact=1e-3 if "GAT" in name else 1e-6)


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
