"""Weights and attributes of edges: they follow the caller's order, and added edges have what is imputed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

import rade.nn
from core.test_layers import IN, Case, drawn, features, over
from rade import Graph, Rates
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.moments.attention import attention, delta
from rade.nn.edge_values import imputed
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from zoo import random_edges, seeded

DIM = 3
ISOLATED = GRAPHS["isolated"]
EDGE_INDEX = ISOLATED.edge_index[:, torch.randperm(8, generator=torch.Generator().manual_seed(0))]
X, ATTR, MINE = normal(5, IN), normal(8, DIM, seed=1), Graph.from_edge_index(EDGE_INDEX, 5)
WEIGHTED = [
    Case("GraphConv"),
    Case("GraphConv", {"aggr": "mean"}),
    Case("GatedGraphConv", {"num_layers": 2}, (IN,)),
    Case("SimpleConv", {}, ()),
    Case("GCNConv"),
    Case("GCNConv", {"improved": True}),
    Case("GCNConv", {"add_self_loops": False}),
    Case("GCNConv", {"normalize": False}),
    Case("SGConv", {"K": 2}),
    Case("APPNP", {"K": 2, "alpha": 0.1}, ()),
    Case("LGConv", {}, ()),
    Case("TAGConv", {"K": 2}),
    Case("MixHopConv"),
    Case("SSGConv", {"alpha": 0.3, "K": 2}),
    Case("ChebConv", {"K": 3}),
    Case("ARMAConv", {"num_layers": 2}),
    Case("GCN2Conv", {"alpha": 0.2}, (IN,), first=True),
]
ATTENTION = {
    "GATConv": lambda nn, **options: nn.GATConv(IN, 4, heads=2, edge_dim=DIM, **options),
    "GATv2Conv": lambda nn, **options: nn.GATv2Conv(IN, 4, heads=2, edge_dim=DIM, **options),
    "TransformerConv": lambda nn, add_self_loops, fill_value: nn.TransformerConv(IN, 4, heads=2, edge_dim=DIM),
}


@pytest.mark.parametrize("name", ["isolated", "directed", "directed-sources"])
@pytest.mark.parametrize("case", WEIGHTED, ids=str)
def test_edge_weights_follow_the_callers_order(case, name):
    """Weights of both directions apart, on a shuffled edge_index: tensor, Graph and uncorrected view.

    Additions weigh the mean. ChebConv's Laplacian is symmetric; else, and on directed graphs, it has no moments.
    """
    known = GRAPHS[name]
    if case.name == "ChebConv" and known.directed:
        pytest.skip("by pairs of views")
    ours, theirs = case.pair()
    edge_index = known.edge_index[:, torch.randperm(known.pattern.size, generator=torch.Generator().manual_seed(0))]
    graph, x = Graph.from_edge_index(edge_index, known.num_nodes), features(known)
    weight = normal(known.pattern.size).exp()
    if case.name == "ChebConv":
        weight = weight + torch.empty_like(weight).index_put(
            (graph.order,), weight[graph.order][graph.pattern.transposition]
        )
    expected = theirs(*case.inputs(x), edge_index, weight)
    assert torch.equal(ours(*case.inputs(x), edge_index, weight), expected)
    assert error(ours(*case.inputs(x), graph, weight), expected) <= 1e-10
    view = drawn(graph)
    there = torch.cat([weight[graph.order][view.kept], weight.mean().expand(view.added.size)])
    found = ours(*case.inputs(x), over(view), weight)
    assert error(found, theirs(*case.inputs(x), view.edge_index, there)) <= 1e-10


def test_weights_may_be_learned_and_layers_share_constant_ones():
    """Gradients reach the weights through the moments; layers on the same constant weights share their coefficients."""
    ours, _ = Case("GCNConv").pair()
    weight, view, x = normal(8).exp().requires_grad_(), drawn(ISOLATED, "of"), features(ISOLATED)
    assert torch.autograd.gradcheck(lambda weight: ours(x, over(view), weight).square().sum(), (weight,))
    fixed = weight.detach()
    assert ours.coefficients(ISOLATED, x, fixed) is ours.coefficients(ISOLATED, x, fixed)
    assert ours.coefficients(ISOLATED, x, fixed) is not ours.coefficients(ISOLATED, x, fixed.clone())
    ours.added_weight = 0.5
    assert torch.as_tensor(ours.coefficients(ISOLATED, x, fixed).added).unique().tolist() == [0.5]


def gine(**options: Any) -> tuple[Any, Any]:
    """Our GINEConv and PyG's with the same parameters."""
    torch.manual_seed(0)
    theirs = pyg.GINEConv(Sequential(Linear(IN, 4), ReLU(), Linear(4, 4)), eps=0.3, **options).double()
    ours = rade.nn.GINEConv(Sequential(Linear(IN, 4), ReLU(), Linear(4, 4)), eps=0.3, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def is_pygs(ours: Any, theirs: Any, how: Any = "mean", on_view: bool = True) -> None:
    """On the edge_index, on the Graph, for RADE-OF inference, and uncorrected on a view; gradients, too."""
    expected = theirs(X, EDGE_INDEX, ATTR)
    assert torch.equal(ours(X, EDGE_INDEX, ATTR), expected)
    for adjacency in (MINE, Adjacency(MINE, Distribution(MINE, Rates(0.3, 0.2)))):
        assert error(ours(X, adjacency, ATTR), expected) <= 1e-10
    gradients = torch.autograd.grad(ours(X, MINE, ATTR).square().sum(), list(ours.parameters()))
    wanted = torch.autograd.grad(expected.square().sum(), list(theirs.parameters()))
    largest = torch.stack([gradient.abs().max() for gradient in wanted])
    assert all(error(*pair, scale=largest) <= 1e-10 for pair in zip(gradients, wanted))
    if on_view:
        view, ordered = drawn(MINE, q=0.5), ATTR[MINE.order]
        there = torch.cat([ordered[view.kept], imputed(MINE, ordered, how)[view.added.target]])
        assert error(ours(X, over(view), ATTR), theirs(X, view.edge_index, there)) <= 1e-10


@pytest.mark.parametrize("how", ["mean", "zero", "frequent", torch.tensor([1.0, -2.0, 0.5])], ids=str)
def test_gine_is_pygs(how):
    ours, theirs = gine(edge_dim=DIM, train_eps=True)
    ours.added_attr = how
    is_pygs(ours, theirs, how)


@pytest.mark.parametrize("fill", ["mean", "add", 0.7])
@pytest.mark.parametrize("loops", [True, False], ids=["loops", "no loops"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_attributes_is_pygs(name, loops, fill):
    """Also uncorrected on a view, where loops do not hang on its edges."""
    torch.manual_seed(0)
    theirs = ATTENTION[name](pyg, add_self_loops=loops, fill_value=fill).double()
    ours = ATTENTION[name](rade.nn, add_self_loops=loops, fill_value=fill).double()
    ours.load_state_dict(theirs.state_dict())
    is_pygs(ours, theirs, on_view=not loops or fill == 0.7)


def test_attributes_on_large_graphs_have_nearly_the_same_moments(monkeypatch):
    """The expansion, which GATConv takes where pairs are too many, is within 15 % of the exact means; seed fixed."""
    edges = random_edges(30, 70)
    graph, attr = Graph.from_edge_index(edges, 30), normal(edges.shape[1], DIM, seed=3)
    conv, (s, t) = seeded(lambda: rade.nn.GATConv(IN, 4, heads=2, edge_dim=DIM)).double(), normal(2, 30, 2)
    found = []
    for listed in (True, False):
        for user in (attention, delta):
            monkeypatch.setattr(user, "listing_is_cheaper", lambda scores, listed=listed: listed)
        mean = conv._attention(graph, s, t, attr).mean(Distribution(graph, Rates(0.3, 0.1)))
        found.append((mean.edges, mean.nonedges.apply(torch.ones(30, 2, 1).double())))
    for exact, near in zip(*found):
        assert 1e-6 < error(near, exact) <= 0.15


def test_what_added_edges_have_is_that_of_their_graph():
    graph = GRAPHS["batch"]  # 4 entries and 6
    kinds = torch.tensor([[2, 0], [1, 1], [2, 0], [3, 0], [5, 5], [4, 4], [4, 4], [5, 5], [4, 4], [0, 0]])
    assert imputed(graph, kinds, "frequent").tolist() == [[2, 0]] * 3 + [[4, 4]] * 4
    means = imputed(graph, kinds.double(), "mean")
    assert torch.equal(means[0], kinds[:4].double().mean(0))
    assert torch.equal(means[-1], kinds[4:].double().mean(0))
    assert imputed(graph, kinds, "zero").sum() == 0
    empty = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3, torch.tensor([0, 0, 1]))
    for how in ("mean", "frequent"):
        assert imputed(empty, torch.ones(2, 1), how).flatten().tolist() == [1.0, 1.0, 0.0]
    for how, words in (
        ("mean", "categories in edge_attr have no mean; added_attr='frequent'"),
        ("median", "added_attr"),
    ):
        with pytest.raises(ValueError, match=words):
            imputed(graph, kinds, how)


def weightless() -> Tensor:
    conv = rade.nn.GCNConv(IN, 2, add_self_loops=False).double()
    conv.added_weight = 0.0
    return conv(X, over(drawn(MINE)), torch.ones(8).double())


def denoised() -> Adjacency:
    return Adjacency(MINE, Distribution(MINE, Rates(0.1, 0.1), noise=Rates(0.1, 0.05)))


REFUSED = {
    "narrow": (lambda: gine()[0](X, MINE, ATTR), "GINEConv adds edge_attr to features: expected 6 columns, got 3; set"),
    "too few": (lambda: gine()[0](X, MINE, ATTR[1:]), r"GINEConv needs edge_attr with one row for.*\[7, 3\]"),
    "missing": (lambda: gine()[0](X, MINE), r"needs edge_attr .* got None"),
    "weights": (
        lambda: Case("GCNConv").pair()[0](X, MINE, ATTR.exp()),
        r"one number for each of the 8.*\[8, 3\]",
    ),
    "weightless": (weightless, "added edges must weigh something without self-loops, got added_weight = 0.0"),
    "no edge_dim": (lambda: Case("TransformerConv").pair()[0](X, MINE, ATTR), "only if it was built with edge_dim"),
    "noise": (lambda: gine(edge_dim=DIM)[0](X, denoised(), ATTR), r"single edges \(edge_attr\) are not told apart"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()
