"""Layers of several steps, and others than the paper's six: in a model they train, adapt and predict like PyG's."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import cross_entropy

import rade
from adapting import adapting
from looping import looped
from rade.correction import propagate
from rade.moments import Sent, Sum
from rade.wrapper.conversion import PLAIN, TWINS, reason_against
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 60
X, EDGES = normal(NODES, 8), random_edges(NODES, 200)
LABELS = torch.arange(NODES) % 3


class After(torch.nn.Module):
    """A linear encoder, then propagation."""

    def __init__(self, conv: torch.nn.Module, width: int = 3) -> None:
        super().__init__()
        self.lin, self.conv = torch.nn.Linear(8, width), conv

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv(self.lin(x), edge_index)


class Deep(torch.nn.Module):
    """GCNII: every layer sees the first features."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 6), torch.nn.Linear(6, 3)
        self.convs = torch.nn.ModuleList([pyg.GCN2Conv(6, 0.2, 0.5, k + 1, **options) for k in range(3)])

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        x = first = self.first(x).relu()
        for conv in self.convs:
            x = conv(x, first, edge_index).relu()
        return self.last(x)


MODELS = {
    "APPNP": lambda: After(pyg.APPNP(4, 0.1)),
    "LGConv": lambda: After(pyg.LGConv()),
    "AGNNConv": lambda: After(pyg.AGNNConv()),
    "GCN2Conv": Deep,
    "GCN2Conv-two-weights": lambda: Deep(shared_weights=False, normalize=False),
    "TAGConv": lambda: Net(lambda i, o: pyg.TAGConv(i, o)),
    "SSGConv": lambda: Net(lambda i, o: pyg.SSGConv(i, o, alpha=0.1, K=3)),
    "MixHopConv": lambda: Net(lambda i, o: pyg.MixHopConv(i, o // 3)),
    "ChebConv": lambda: Net(lambda i, o: pyg.ChebConv(i, o, K=3)),
    "GatedGraphConv": lambda: After(pyg.GatedGraphConv(3, 2)),
    "ARMAConv": lambda: Net(lambda i, o: pyg.ARMAConv(i, o, num_stacks=2, num_layers=2)),
    "GATv2Conv": lambda: Net(lambda i, o: pyg.GATv2Conv(i, o, heads=2, concat=False)),
    "TransformerConv": lambda: Net(lambda i, o: pyg.TransformerConv(i, o // 2, heads=2)),
    "ClusterGCNConv": lambda: Net(lambda i, o: pyg.ClusterGCNConv(i, o, diag_lambda=0.5)),
}


@looped("variant", ["of", "ofs"])
@pytest.mark.parametrize("name", MODELS)
def test_models_train_adapt_and_predict(name, variant):
    net = seeded(MODELS[name])
    plain = copy.deepcopy(net).eval()
    rule = rade.NoiseRatio() if name == "GatedGraphConv" else rade.GradNorm()
    model = rade.RADE(net, variant, rule=rule)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.follow(optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())
        optimizer.step()
    assert model.rates.p != 0.5
    plain.load_state_dict(net.state_dict())
    same = rade.RADE(rade.revert(model.wrapped)).eval()
    torch.testing.assert_close(same(X, EDGES), plain(X, EDGES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["APPNP", "TAGConv", "SSGConv", "MixHopConv", "ChebConv"])
def test_linear_layers_of_several_steps_average_to_inference(name):
    """Fresh views for every step: 4,000 of them, 16 at a time, within 5 standard errors on every output."""
    layers = {
        "APPNP": pyg.APPNP(3, 0.2),
        "TAGConv": pyg.TAGConv(4, 2, K=2),
        "SSGConv": pyg.SSGConv(4, 2, alpha=0.2, K=2),
        "MixHopConv": pyg.MixHopConv(4, 2, powers=[1, 2]),
        "ChebConv": pyg.ChebConv(4, 2, K=3),
    }
    x, edges, copies = normal(10, 4, dtype=torch.double), random_edges(10, 14), 16
    shift = 10 * torch.arange(copies)
    together = (edges[:, None] + shift[:, None]).flatten(1)
    batch = rade.Graph.from_edge_index(together, 10 * copies, batch=torch.arange(copies).repeat_interleave(10))
    model = rade.RADE(layers[name].double(), rule=rade.Constant(0.3, 0.3), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        seen = torch.cat([model.train()(x.repeat(copies, 1), batch).unflatten(0, (copies, 10)) for _ in range(250)])
        z = (seen.mean(0) - model.eval()(x, edges)) / (seen.std(0) / len(seen) ** 0.5)
    assert len(seen) == 4000
    assert float(z.abs().max()) < 5.0


def test_a_gated_unit_needs_another_rule():
    model = adapting(seeded(MODELS["GatedGraphConv"]))
    cross_entropy(model.train()(X, EDGES), LABELS).backward()
    with pytest.raises(ValueError, match=r"gated unit of GatedGraphConv.*rade.NoiseRatio\(\)"):
        model.adapt()


class WithWeights(torch.nn.Module):
    """A convolution with edge weights after a linear encoder."""

    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.lin, self.conv = torch.nn.Linear(8, 3), conv

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor) -> Tensor:
        return self.conv(self.lin(x), edge_index, edge_weight)


WEIGHTED = {
    "GCNConv": lambda: pyg.GCNConv(3, 3),
    "SGConv": lambda: pyg.SGConv(3, 3, K=2),
    "APPNP": lambda: pyg.APPNP(2, 0.1),
    "TAGConv": lambda: pyg.TAGConv(3, 3, K=2),
    "SSGConv": lambda: pyg.SSGConv(3, 3, alpha=0.1, K=2),
    "GraphConv": lambda: pyg.GraphConv(3, 3),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_models_adapt_and_predict_what_they_predicted(name):
    weight = normal(EDGES.shape[1], seed=4).exp()
    net = seeded(lambda: WithWeights(WEIGHTED[name]()))
    expected = net(X, EDGES, weight)
    for rule in (rade.GradNorm(), rade.NoiseRatio()):
        model = rade.RADE(net, rule=rule)
        cross_entropy(model.train()(X, EDGES, weight), LABELS).backward()
        model.adapt()
        assert model.rates.p != 0.5
        torch.testing.assert_close(model.eval()(X, EDGES, weight), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: pyg.APPNP(2, 0.1, dropout=0.5), r"APPNP\(dropout=0.5\) is not supported.*use dropout=0.0"),
        (lambda: pyg.ChebConv(8, 3, K=2, normalization="rw"), r"ChebConv\(normalization='rw'\).*'sym'"),
        (lambda: pyg.GCN2Conv(8, 0.1, cached=True), "cached=True"),
        (lambda: pyg.SuperGATConv(8, 3), "functions of pairs"),
        (lambda: pyg.NNConv(8, 3, torch.nn.Linear(2, 24)), "edge attributes, which added edges do not have"),
        (lambda: pyg.EdgeConv(torch.nn.Linear(16, 3)), "no weighted sum of messages"),
        (lambda: pyg.RGCNConv(8, 3, 2), "several relations"),
        (lambda: pyg.LEConv(8, 3), "coefficients have no moments here; rade.register"),
    ],
)
def test_refusals_give_their_reason(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        rade.RADE(build())


class Mine(pyg.MessagePassing):
    """Somebody's own layer: Σ_j W x_j."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="add")
        self.lin = torch.nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class MineOnViews(rade.nn.CorrectedConv, Mine):
    """Its twin."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        if not isinstance(edge_index, rade.Adjacency):
            return super().forward(x, edge_index)
        return self.send(edge_index, Sum(edge_index.graph, x.dtype), self.lin(x))

    def sent(self, head: Tensor | None, graph: rade.Graph, x: Tensor, **inputs: Any) -> Sent:
        weight = self.lin.weight if head is None else head @ self.lin.weight
        return Sent(Sum(graph, x.dtype), x @ weight.t())


def test_layers_of_ones_own_are_registered():
    with pytest.raises(ValueError, match=r"rade.register takes a layer of your own"):
        rade.RADE(Net(Mine))
    with pytest.raises(TypeError, match=r"must derive from rade.nn.CorrectedConv and from Mine itself"):
        rade.register(Mine, Mine)
    rade.register(Mine, MineOnViews)
    try:
        net = seeded(lambda: Net(Mine))
        expected = net(X, EDGES)
        model = adapting(net)
        cross_entropy(model.train()(X, EDGES), LABELS).backward()
        model.adapt()
        assert int(model.controller.steps) == 1
        torch.testing.assert_close(model.eval()(X, EDGES), expected)
        assert type(rade.revert(model).convs[0]) is Mine
    finally:
        del TWINS[Mine], PLAIN[MineOnViews]


def test_a_twin_that_computes_something_else_is_told():
    class Twice(MineOnViews):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            out = super().forward(x, edge_index)
            return 2 * out if isinstance(edge_index, rade.Adjacency) else out

    class Silent(rade.nn.CorrectedConv, Mine):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return x

    class Still(rade.nn.CorrectedConv, Mine):
        sent = MineOnViews.sent

    for wrong, name in ((Silent, "sent"), (Still, "forward")):
        with pytest.raises(TypeError, match=f"{wrong.__name__} needs a {name} of its own"):
            rade.register(Mine, wrong)
    for twin, works in ((Twice, False), (MineOnViews, True)):
        rade.register(Mine, twin)
        try:
            found = rade.check(seeded(lambda: Net(Mine)), X, EDGES)
        finally:
            del TWINS[Mine], PLAIN[twin]
        assert found.works == works
        assert ("does not compute what the one it replaces does" in str(found)) != works


def test_a_subclass_is_not_taken_for_its_parent():
    class Changed(pyg.GCNConv):
        pass

    assert "subclass of a supported layer" in reason_against(Changed(8, 3))


def test_clean_propagation_is_the_layers_own():
    graph = rade.Graph.from_edge_index(EDGES, NODES)
    conv = seeded(lambda: rade.nn.LGConv())
    torch.testing.assert_close(conv(X, graph), propagate(graph, conv.coefficients(graph, X), X))


def test_the_readme_names_every_supported_layer():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|") and "supported" in line.split("|")[2]]
    named = {name.strip(" `") for row in rows for name in row.split("|")[1].split(",")}
    assert named == {layer.__name__ for layer in TWINS}


@pytest.mark.parametrize("name", LAYERS)
def test_checks_see_every_layer(name):
    found = rade.check(seeded(lambda: Net(LAYERS[name])), X, EDGES)
    assert found.works
    assert found.adapts
    assert sum("on random views" in line.found for line in found.lines) == 2


def test_a_check_says_what_is_wrong_and_changes_nothing():
    net = seeded(lambda: Net(lambda i, o: pyg.SuperGATConv(i, o)))
    found = rade.check(net, X, EDGES)
    assert (found.works, found.adapts) == (False, False)
    assert "!!  layer convs.0  SuperGATConv: its coefficients are functions of pairs" in str(found)
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    linear, state = torch.nn.Linear(2, 2), torch.get_rng_state()
    found = rade.check(net, X, EDGES[:, :5])
    assert not found.works
    assert "both directions of every edge" in str(found)
    assert type(net.convs[0]) is pyg.GCNConv
    blocks = torch.cat([random_edges(20, 60, seed=k) + 20 * k for k in range(3)], 1)
    assert "look like a batch" in str(rade.check(net, X, blocks))
    found = rade.check(seeded(lambda: pyg.GIN(8, 6, 2, 3, norm="layer_norm")), X, EDGES)
    assert (found.works, found.adapts) == (True, False)
    assert "they stay as they are; with rade.GradNorm(): " in str(found)
    assert rade.check(linear).lines[0].found == "Linear has no graph convolution"
    assert torch.equal(torch.get_rng_state(), state)
    assert found.asdict()["adapts"] is False


def test_one_kind_of_nodes_and_one_undirected_relation():
    """Bipartite calls, relations and edges in one direction: one sentence each."""
    hetero = pyg.HeteroConv({("a", "to", "a"): pyg.GCNConv(8, 3), ("a", "of", "a"): pyg.SAGEConv(8, 3)})
    with pytest.raises(ValueError, match=r"HeteroConv at 'the top' has several relations.*to_homogeneous"):
        rade.RADE(hetero)
    with pytest.raises(
        ValueError, match=r"SAGEConv got a tuple of features.* bipartite: views are of one kind of nodes"
    ):
        rade.nn.SAGEConv(8, 3)((X, X), rade.Graph.from_edge_index(EDGES, NODES))
    with pytest.raises(ValueError, match=r"several kinds of nodes or relations \(x_dict, edge_index_dict\)"):
        rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])))(x_dict={"a": X}, edge_index_dict={})
    with pytest.raises(ValueError, match=r"some edges have no reverse.*to_undirected.*rade.Views\(directed=True\)"):
        rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"]))).train()(X, EDGES[:, :7])
