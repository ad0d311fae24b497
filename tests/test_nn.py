"""The convolutions are PyG's: on tensors, on clean graphs, with dense and sparse features, and on uncorrected views."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from rade.view import View, sample
from torch import Tensor
from torch.nn import Linear, ReLU, Sequential

import rade.nn
from looping import looped
from rade import Graph, Law, MeanView, Rates, sample_view
from rade.nn.linear import lean
from rade.testing import GRAPHS as NAMED
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from zoo import LAYERS, random_edges, seeded

IN, OUT = 6, 4
ISOLATED, CYCLE_CHORD = NAMED["isolated"], NAMED["cycle-chord"]


@dataclass(frozen=True)
class Case:
    """A layer with constructor options and, for some, further inputs of the forward pass."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    channels: tuple[Any, ...] = (IN, OUT)
    single: bool = False  # whether PyG itself computes in single precision

    def __str__(self) -> str:
        return self.name + "".join(f"-{key}={value}" for key, value in self.options.items())

    def allowed(self, tolerance: float = 1e-10) -> float:
        return max(tolerance, 1e-7) if self.single else tolerance

    def pair(self, dtype: torch.dtype = torch.double) -> tuple[Any, Any]:
        """Our layer and PyG's with the same parameters, away from their initial zeros."""
        torch.manual_seed(0)
        theirs = getattr(pyg, self.name)(*self.channels, **self.options).to(dtype)
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        ours = getattr(rade.nn, self.name)(*self.channels, **self.options).to(dtype)
        ours.load_state_dict(theirs.state_dict())
        return ours.eval(), theirs.eval()


def mlp(*sizes: int) -> Sequential:
    layers = [layer for a, b in pairwise(sizes) for layer in (Linear(a, b), ReLU())]
    return Sequential(*layers[:-1])


def gin(nn: torch.nn.Module, **options: Any) -> Case:
    return Case("GINConv", options, (nn,))


CASES = [
    Case("GCNConv"),
    Case("GCNConv", {"improved": True}),
    Case("GCNConv", {"add_self_loops": False}),
    Case("GCNConv", {"normalize": False}),
    Case("GCNConv", {"bias": False}),
    Case("GCNConv", {"improved": True, "bias": False}),
    gin(mlp(IN, 3, OUT)),
    gin(mlp(IN, 9, OUT), eps=0.3),
    gin(mlp(IN, 3, OUT), train_eps=True),
    gin(Linear(IN, OUT), eps=-0.5, train_eps=True),
    gin(Sequential(Linear(IN, OUT, bias=False)), eps=0.1),
    gin(pyg.MLP([IN, 8, OUT], dropout=0.5)),
    gin(torch.nn.Identity()),
    Case("GATConv"),
    Case("GATConv", {"heads": 3}),
    Case("GATConv", {"heads": 3, "concat": False}),
    Case("GATConv", {"negative_slope": 0.0}),
    Case("GATConv", {"heads": 2, "negative_slope": 0.9}),
    Case("GATConv", {"add_self_loops": False}),
    Case("GATConv", {"heads": 2, "add_self_loops": False, "bias": False}),
    Case("GATConv", {"heads": 2, "residual": True}),
    Case("GATConv", {"heads": 2, "residual": True, "concat": False}),
    Case("GATConv", {"dropout": 0.6}),
    Case("GATv2Conv"),
    Case("GATv2Conv", {"heads": 2, "residual": True, "dropout": 0.5}),
    Case("GATv2Conv", {"heads": 2, "concat": False, "share_weights": True, "add_self_loops": False, "bias": False}),
    Case("AGNNConv", {}, ()),
    Case("AGNNConv", {"requires_grad": False, "add_self_loops": False}, ()),
    Case("TransformerConv"),
    Case("TransformerConv", {"heads": 2, "beta": True, "dropout": 0.5}),
    Case("TransformerConv", {"heads": 2, "concat": False, "root_weight": False, "bias": False}),
    Case("SAGEConv"),
    Case("SAGEConv", {"aggr": "sum"}),
    Case("SAGEConv", {"aggr": "add"}),
    Case("SAGEConv", {"normalize": True}),
    Case("SAGEConv", {"root_weight": False}),
    Case("SAGEConv", {"project": True}),
    Case("SAGEConv", {"bias": False}),
    Case("SAGEConv", {"aggr": "sum", "project": True, "normalize": True, "root_weight": False}),
    Case("GraphConv"),
    Case("GraphConv", {"aggr": "mean"}),
    Case("GraphConv", {"bias": False}),
    Case("APPNP", {"K": 3, "alpha": 0.2}, ()),
    Case("APPNP", {"K": 1, "alpha": 0.1, "add_self_loops": False}, ()),
    Case("APPNP", {"K": 2, "alpha": 0.1, "normalize": False}, ()),
    Case("LGConv", {}, ()),
    Case("LGConv", {"normalize": False}, ()),
    Case("TAGConv"),
    Case("TAGConv", {"K": 1, "normalize": False, "bias": False}),
    Case("MixHopConv"),
    Case("MixHopConv", {"powers": [2, 0], "add_self_loops": False}),
    Case("SSGConv", {"alpha": 0.3, "K": 3}),
    Case("SSGConv", {"alpha": 0.3, "bias": False, "add_self_loops": False}),
    Case("ChebConv", {"K": 1}),
    Case("ChebConv", {"K": 2}),
    Case("ChebConv", {"K": 4, "bias": False}),
    Case("GatedGraphConv", {"num_layers": 2}, (IN + 2,)),
    Case("GatedGraphConv", {"num_layers": 1, "aggr": "mean"}, (IN,)),
    Case("ARMAConv"),
    Case("ARMAConv", {"num_stacks": 2, "num_layers": 3, "dropout": 0.5}),
    Case("ARMAConv", {"num_layers": 2, "shared_weights": True, "act": None, "bias": False}),
    Case("ClusterGCNConv", single=True),
    Case("ClusterGCNConv", {"diag_lambda": 0.7, "bias": False}, single=True),
    Case("SGConv"),
    Case("SGConv", {"K": 3}),
    Case("SGConv", {"K": 2, "add_self_loops": False, "bias": False}),
]
UNUSED = {"allow_unused": True, "materialize_grads": True}  # a single step of ARMAConv has a weight that nobody uses
every_case = pytest.mark.parametrize("case", CASES, ids=str)
GRAPHS = {name: NAMED[name] for name in ("isolated", "near-clique", "cycle-chord", "batch")}
DIRECTED = {name: NAMED[name] for name in ("directed", "directed-sources", "directed-batch")}


def graphs_for(case: Case) -> list[Graph]:
    """Undirected and directed ones; ChebConv has no Laplacian of the latter."""
    return [*GRAPHS.values(), *(() if case.name == "ChebConv" else DIRECTED.values())]


def drawn(graph: Graph, rates: Rates, variant: str = "none") -> View:
    return sample(Law(graph, rates, variant, generator=torch.Generator().manual_seed(1)))


def features(graph: Graph, seed: int = 0) -> Tensor:
    """With zeros, so that the sparse form is sparse."""
    return normal(graph.num_nodes, IN, seed=seed) * (normal(graph.num_nodes, IN, seed=seed + 1) > -0.3)


@every_case
@looped(("dtype", "tolerance"), [(torch.double, 1e-10), (torch.float, 1e-6)])
def test_layers_compute_what_pyg_computes(case, dtype, tolerance):
    """On the edge_index, on the Graph and for RADE-OF inference; dense features and, where PyG has none, CSR."""
    ours, theirs = case.pair(dtype)
    for graph in graphs_for(case):
        x = features(graph).to(dtype)
        assert torch.equal(ours(x, graph.edge_index), theirs(x, graph.edge_index))
        expected = theirs(x, graph.edge_index)
        for adjacency in (graph, MeanView(Law(graph, Rates(0.3, 0.2)))):
            for given in (x, x.to_sparse_csr()):
                assert error(ours(given, adjacency), expected) <= case.allowed(tolerance)


@every_case
def test_state_dicts_are_interchangeable(case):
    ours, theirs = case.pair()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert isinstance(ours, type(theirs))


@every_case
def test_gradients_are_those_of_pyg(case):
    ours, theirs = case.pair()
    x, other = (features(CYCLE_CHORD).requires_grad_() for _ in range(2))
    out, right = ours(x, CYCLE_CHORD), theirs(other, CYCLE_CHORD.edge_index)
    direction = normal(*out.shape, seed=3)
    gradients = torch.autograd.grad((out.square() * direction).sum(), [x, *ours.parameters()], **UNUSED)
    expected = torch.autograd.grad((right.square() * direction).sum(), [other, *theirs.parameters()], **UNUSED)
    largest = torch.stack([gradient.abs().max() for gradient in expected])  # softmax lets some of them vanish
    for found, right in zip(gradients, expected):
        assert error(found, right, scale=largest) <= case.allowed()


@every_case
def test_an_uncorrected_view_is_pyg_on_its_edges(case):
    """variant="none" is the plain layer on the perturbed graph."""
    ours, theirs = case.pair()
    for graph in graphs_for(case):
        view = drawn(graph, Rates(0.4, 0.3))
        x = features(graph)
        assert error(ours(x, view), theirs(x, view.edge_index)) <= case.allowed()


@looped("variant", ["of", "ofs", "none"])
@every_case
def test_corrected_steps_can_be_trained(case, variant):
    """Dense and CSR features agree on a view, and every parameter receives a finite gradient."""
    ours, _ = case.pair()
    view = drawn(ISOLATED, Rates(0.4, 0.5), variant)
    x = features(ISOLATED)
    out = ours(x, view)
    assert error(ours(x.to_sparse_csr(), view), out) <= 1e-10
    loss = (out + ours(x, MeanView(view.law))).square().sum()
    gradients = torch.autograd.grad(loss, list(ours.parameters()), **UNUSED) if loss.requires_grad else ()
    assert all(gradient.isfinite().all() for gradient in gradients)


WEIGHTED = [
    Case("GraphConv"),
    Case("GraphConv", {"aggr": "mean"}),
    Case("GatedGraphConv", {"num_layers": 2}, (IN,)),
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
]


@pytest.mark.parametrize("case", WEIGHTED, ids=str)
@pytest.mark.parametrize("name", ["isolated", "directed", "directed-sources"])
def test_edge_weights_follow_the_callers_order(case, name):
    """Directed weights on a shuffled edge_index: tensor, Graph and uncorrected view, where additions weigh the mean."""
    ours, theirs = case.pair()
    if case.name == "ChebConv" and name != "isolated":
        pytest.skip("ChebConv has no Laplacian of a directed graph")
    sorted_one = NAMED[name]
    shuffle = torch.randperm(sorted_one.pattern.size, generator=torch.Generator().manual_seed(0))
    edge_index, weight = sorted_one.edge_index[:, shuffle], normal(sorted_one.pattern.size).exp()
    nodes, x = sorted_one.num_nodes, features(sorted_one)
    graph = Graph.from_edge_index(edge_index, nodes, directed=sorted_one.directed)
    if case.name == "ChebConv":  # its Laplacian is symmetric
        weight = weight + torch.empty_like(weight).index_put(
            (graph.order,), weight[graph.order][graph.pattern.transposition]
        )
    expected = theirs(x, edge_index, weight)
    assert torch.equal(ours(x, edge_index, weight), expected)
    assert error(ours(x, graph, weight), expected) <= 1e-10
    view = drawn(graph, Rates(0.4, 0.3))
    kept = edge_index[:, graph.order][:, view.kept]
    added = torch.stack([view.added.source, view.added.target])
    weights = torch.cat([weight[graph.order][view.kept], weight.mean().expand(view.added.size)])
    assert error(ours(x, view, weight), theirs(x, torch.cat([kept, added], 1), weights)) <= 1e-10


def test_weights_may_be_learned_and_layers_share_constant_ones():
    """Gradients reach the weights through the moments; layers on the same constant weights share their coefficients."""
    ours, _ = Case("GCNConv").pair()
    weight = normal(ISOLATED.pattern.size).exp().requires_grad_()
    view, x = drawn(ISOLATED, Rates(0.4, 0.3), "of"), features(ISOLATED)

    def loss(weight: Tensor) -> Tensor:
        return ours(x, view, weight).square().sum()

    assert torch.autograd.gradcheck(loss, (weight,))
    fixed = weight.detach()
    assert ours.coefficients(ISOLATED, x, fixed) is ours.coefficients(ISOLATED, x, fixed)
    assert ours.coefficients(ISOLATED, x, fixed) is not ours.coefficients(ISOLATED, x, fixed.clone())
    ours.added_weight = 0.5
    assert ours.coefficients(ISOLATED, x, fixed).added.unique().tolist() == [0.5]


def test_additions_weigh_the_mean_of_their_own_graph():
    graph = NAMED["batch"]
    weight = torch.arange(1.0, graph.pattern.size + 1.0, dtype=torch.double)
    first, second = torch.split(weight[graph.order], graph.entry_ptr.diff().tolist())
    coefficients = Case("GCNConv").pair()[0].coefficients(graph, features(graph), weight)
    assert torch.equal(coefficients.added, torch.stack([first.mean(), second.mean()])[graph.batch])


def test_self_loops_in_the_input_keep_pygs_meaning():
    """Given as a tensor, GIN sums a loop twice as PyG does; GCN's own loops make a Graph the same as the tensor."""
    loops = torch.arange(5).expand(2, 5)
    edge_index = torch.cat([ISOLATED.edge_index, loops], 1)
    x = features(ISOLATED)
    ours, theirs = gin(mlp(IN, OUT)).pair()
    assert torch.equal(ours(x, edge_index), theirs(x, edge_index))
    ours, theirs = Case("GCNConv").pair()
    assert error(ours(x, Graph.from_edge_index(edge_index, 5)), theirs(x, edge_index)) <= 1e-10


@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "SAGEConv", "GraphConv", "SGConv"])
def test_lazy_layers_find_their_width(name):
    conv = getattr(rade.nn, name)(-1, OUT)
    assert conv(torch.randn(5, IN), ISOLATED).shape == (5, OUT)


def test_attention_dropout_only_in_training():
    ours, _ = Case("GATConv", {"dropout": 0.5}).pair()
    x = features(ISOLATED)
    assert torch.equal(ours(x, ISOLATED), ours(x, ISOLATED))
    ours.train()
    torch.manual_seed(0)
    assert not torch.equal(ours(x, ISOLATED), ours(x, ISOLATED))


def view() -> Any:
    return sample_view(ISOLATED, Rates(0.3, 0.2), torch.Generator().manual_seed(0))


def weightless_additions() -> rade.nn.GCNConv:
    conv = rade.nn.GCNConv(IN, OUT, add_self_loops=False)
    conv.added_weight = 0.0
    return conv


X, W = torch.ones(5, IN), torch.ones(ISOLATED.pattern.size)
LOOPED = Graph.from_edge_index(torch.cat([ISOLATED.edge_index, torch.arange(5).expand(2, 5)], 1), 5)
REFUSED = {
    "cached GCN": (lambda: rade.nn.GCNConv(IN, OUT, cached=True), r"GCNConv\(cached=True\) would keep its first view"),
    "cached SG": (lambda: rade.nn.SGConv(IN, OUT, cached=True), r"SGConv\(cached=True\) would keep its first view"),
    "flow": (lambda: rade.nn.GCNConv(IN, OUT, flow="target_to_source"), r"flow='target_to_source'\) is not supported"),
    "bipartite": (lambda: rade.nn.SAGEConv((IN, IN), OUT), "tuple in_channels is bipartite"),
    "bipartite GAT": (lambda: rade.nn.GATConv((IN, IN), OUT), "tuple in_channels is bipartite"),
    "max": (lambda: rade.nn.SAGEConv(IN, OUT, aggr="max"), r"SAGEConv\(aggr='max'\) .* use aggr='mean' or 'add'"),
    "lstm": (lambda: rade.nn.SAGEConv(IN, OUT, aggr="lstm"), "SAGEConv"),
    "several": (lambda: rade.nn.SAGEConv(IN, OUT, aggr=["mean", "max"]), "SAGEConv"),
    "max GraphConv": (lambda: rade.nn.GraphConv(IN, OUT, aggr="max"), r"GraphConv\(aggr='max'\)"),
    "mean GIN": (lambda: rade.nn.GINConv(mlp(IN, OUT), aggr="mean"), r"GINConv\(aggr='mean'\)"),
    "mean GAT": (lambda: rade.nn.GATConv(IN, OUT, aggr="mean"), r"GATConv\(aggr='mean'\)"),
    "cluster": (lambda: rade.nn.ClusterGCNConv(IN, OUT, add_self_loops=False), r"add_self_loops=False\) is not"),
    "falling slope": (lambda: rade.nn.GATConv(IN, OUT, negative_slope=-0.1), "must be >= 0"),
    "zero weight": (
        lambda: rade.nn.GCNConv(IN, OUT)(X, view(), 0 * W),
        "edge_weight must be positive .* got 0; .*Graph",
    ),
    "negative weight": (
        lambda: rade.nn.SGConv(IN, OUT)(X, view(), -W),
        "must be positive and finite where degrees are weighted",
    ),
    "infinite weight": (
        lambda: rade.nn.GCNConv(IN, OUT, add_self_loops=False)(X, view(), W / 0),
        "must be positive and finite .* got inf",
    ),
    "additions without weight": (
        lambda: weightless_additions()(X, view(), W),
        "added edges must weigh something without self-loops, got added_weight = 0.0",
    ),
    "directed Cheb": (
        lambda: rade.nn.ChebConv(IN, OUT, K=2)(X, view(), W.cumsum(0)),
        "ChebConv takes edge_weight .* only if both directions of every edge weigh the same",
    ),
    "Cheb on a directed graph": (
        lambda: rade.nn.ChebConv(IN, OUT, K=2)(torch.ones(4, IN), DIRECTED["directed"]),
        "ChebConv has a symmetric Laplacian.*directed.*to_undirected",
    ),
    "weighted loops": (
        lambda: rade.nn.GCNConv(IN, OUT)(X, LOOPED, torch.ones(LOOPED.pattern.size + 5)),
        "5 self-loops, whose weights may count in degrees.*remove_self_loops",
    ),
    "largest attribute": (
        lambda: rade.nn.GATConv(IN, OUT, edge_dim=2, fill_value="max")(X, view(), torch.ones(W.numel(), 2)),
        r"GATConv\(fill_value='max'\) is not supported on random views; use fill_value='mean', 'add' or a number",
    ),
    "attribute of Transformer": (
        lambda: rade.nn.TransformerConv(IN, OUT)(X, view(), torch.ones(W.numel(), 2)),
        "TransformerConv takes edge_attr only if it was built with edge_dim",
    ),
    "attention weights": (
        lambda: rade.nn.GATConv(IN, OUT)(X, view(), return_attention_weights=True),
        "return_attention_weights",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_views_cannot_do_is_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_features_that_are_mostly_zero_become_sparse_once_they_came_thrice(monkeypatch):
    """A bag of words given dense; made anew, changed in place, wanting gradients or dense at heart, it stays dense."""
    monkeypatch.setattr("rade.nn.linear.MANY", 1)
    x = torch.zeros(40, 20)
    x[torch.arange(40), torch.arange(40) % 20] = 1.0
    assert [lean(x).layout for _ in range(4)] == [torch.strided] * 2 + [torch.sparse_csr] * 2
    assert torch.equal(lean(x).to_dense(), x)
    x[0, 3] = 2.0
    assert lean(x) is x
    assert [lean(lean(lean(lean(x)))).layout for _ in range(2)][-1] == torch.sparse_csr
    assert torch.equal(lean(x).to_dense(), x)
    for given in (torch.ones(40, 20), x.clone().requires_grad_(), x.to(torch.bfloat16)):
        assert all(lean(given) is given for _ in range(5))
    assert all(lean(x * 2.0).layout == torch.strided for _ in range(5))


@pytest.mark.parametrize("name", ["GCNConv", "SGConv", "GINConv", "SAGEConv", "GraphConv"])
def test_layers_compute_the_same_on_features_found_to_be_sparse(name, monkeypatch):
    monkeypatch.setattr("rade.nn.linear.MANY", 1)
    edges, x = random_edges(30, 60), torch.zeros(30, 40)
    x[torch.arange(30), torch.arange(30)] = 1.0
    layer = rade.convert(seeded(lambda: LAYERS[name](40, 5)))
    graph = Graph.from_edge_index(edges, 30)
    outputs = [layer(x, graph) for _ in range(5)]
    assert all(error(out, outputs[0]) < 1e-5 for out in outputs)
    gradients = [torch.autograd.grad(out.square().sum(), list(layer.parameters())) for out in outputs]
    for one, other in zip(gradients[0], gradients[-1]):
        assert error(one, other) < 1e-5
