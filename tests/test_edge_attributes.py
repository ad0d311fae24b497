"""Edge attributes on random views: GINEConv is PyG's, added edges have an imputed attribute, and rates adapt."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from rade.graph.nodes import nodes_of
from rade.nn.attributes import imputed
from rade.view import sample
from rade.view.rows import Restricted
from torch import Tensor
from torch.nn import Embedding, Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

import rade
from adapting import adapting
from rade import Graph, Law, MeanView, Rates
from rade.graph import Messages
from rade.moments import Sent, Sum, Symmetric
from rade.moments.attention import denominator
from rade.nn.base import linear_part
from rade.testing import GRAPHS
from rade.testing.oracle import error
from rade.wrapper.conversion import PLAIN, TWINS
from zoo import normal, random_edges, seeded

IN, DIM = 6, 3
GRAPH = GRAPHS["isolated"]
SHUFFLE = torch.randperm(GRAPH.pattern.size, generator=torch.Generator().manual_seed(0))
EDGE_INDEX = GRAPH.edge_index[:, SHUFFLE]
X, ATTR = normal(5, IN, dtype=torch.double), normal(EDGE_INDEX.shape[1], DIM, seed=1, dtype=torch.double)
MINE = Graph.from_edge_index(EDGE_INDEX, 5)


def pair(**options: Any) -> tuple[Any, Any]:
    """Our GINEConv and PyG's with the same parameters."""
    torch.manual_seed(0)
    theirs = pyg.GINEConv(Sequential(Linear(IN, 4), ReLU(), Linear(4, 4)), eps=0.3, **options).double()
    ours = rade.nn.GINEConv(Sequential(Linear(IN, 4), ReLU(), Linear(4, 4)), eps=0.3, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("how", ["mean", "zero", "frequent", torch.tensor([1.0, -2.0, 0.5])])
def test_gine_is_pygs(how):
    """On the edge_index, on the Graph, for RADE-OF inference, and uncorrected on a view; gradients, too."""
    ours, theirs = pair(edge_dim=DIM, train_eps=True)
    ours.added_attr = how
    expected = theirs(X, EDGE_INDEX, ATTR)
    assert torch.equal(ours(X, EDGE_INDEX, ATTR), expected)
    for adjacency in (MINE, MeanView(Law(MINE, Rates(0.3, 0.2)))):
        assert error(ours(X, adjacency, ATTR), expected) <= 1e-10
    view = sample(Law(MINE, Rates(0.4, 0.5), "none", generator=torch.Generator().manual_seed(1)))
    ordered = ATTR[MINE.order]
    added = imputed(MINE, ordered, how)[view.added.target]
    there = torch.cat([ordered[view.kept], added])
    assert view.added.size
    assert error(ours(X, view, ATTR), theirs(X, view.edge_index, there)) <= 1e-10
    gradients = torch.autograd.grad(ours(X, MINE, ATTR).square().sum(), list(ours.parameters()))
    for found, right in zip(gradients, torch.autograd.grad(expected.square().sum(), list(theirs.parameters()))):
        assert error(found, right) <= 1e-10


def test_attributes_without_a_map_of_their_own():
    ours, theirs = pair()
    wide = normal(EDGE_INDEX.shape[1], IN, seed=2, dtype=torch.double)
    assert error(ours(X, MINE, wide), theirs(X, EDGE_INDEX, wide)) <= 1e-10
    with pytest.raises(
        ValueError, match="GINEConv adds edge_attr to features: expected 6 columns, got 3; set edge_dim=3"
    ):
        ours(X, MINE, ATTR)
    with pytest.raises(
        ValueError, match=r"GINEConv needs edge_attr with one row for each of the 8 entries.*got \[7, 3\]"
    ):
        ours(X, MINE, ATTR[1:])
    with pytest.raises(ValueError, match=r"needs edge_attr .* got None"):
        ours(X, MINE)


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
    with pytest.raises(ValueError, match="categories in edge_attr have no mean; added_attr='frequent'"):
        imputed(graph, kinds, "mean")
    with pytest.raises(ValueError, match="added_attr"):
        imputed(graph, kinds, "median")


class BondGIN(pyg.MessagePassing):
    """The convolution of a molecule model: a bond encoder inside, then as GINEConv."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.mlp = Sequential(
            Linear(width, 2 * width), torch.nn.BatchNorm1d(2 * width), ReLU(), Linear(2 * width, width)
        )
        self.eps, self.bonds = torch.nn.Parameter(torch.zeros(1)), Embedding(4, width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.mlp((1 + self.eps) * x + self.propagate(edge_index, x=x, e=self.bonds(edge_attr)))

    def message(self, x_j: Tensor, e: Tensor) -> Tensor:
        return (x_j + e).relu()


class BondGINOnViews(rade.nn.CorrectedConv, BondGIN):
    """Its twin: an added edge is a bond of the graph's most frequent kind."""

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor) -> Tensor:
        if not isinstance(edge_index, rade.Adjacency):
            return super().forward(x, edge_index, edge_attr)
        graph = edge_index.graph
        sums = self.send(edge_index, Sum(graph, x.dtype), self.messages(graph, x, edge_attr))
        return self.mlp((1 + self.eps) * x + sums)

    def messages(self, graph: Graph, x: Tensor, edge_attr: Tensor) -> Messages:
        kinds = edge_attr[graph.order]
        others = self.bonds(imputed(graph, kinds[:, None], "frequent").squeeze(1))
        return Messages((x + others).relu(), (x[graph.pattern.source] + self.bonds(kinds)).relu())

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, edge_attr: Tensor, **_: Any) -> Sent:
        return Sent(Sum(graph, x.dtype), self.messages(graph, x, edge_attr).through(linear_part(head, self.mlp)))


@pytest.fixture
def registered():
    rade.register(BondGIN, BondGINOnViews)
    yield
    del TWINS[BondGIN], PLAIN[BondGINOnViews]


class Molecules(torch.nn.Module):
    """Two convolutions with bonds, pooled to one row for each graph."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.atoms, self.convs = Embedding(5, 8), torch.nn.ModuleList([conv(), conv()])
        self.norm, self.head = torch.nn.BatchNorm1d(8), Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor, batch: Tensor) -> Tensor:
        h = self.atoms(x)
        for conv in self.convs:
            h = conv(h, edge_index, edge_attr)
        return self.head(pyg.global_add_pool(self.norm(h), batch))


class GINEMolecules(Molecules):
    """The same with PyG's layer: bonds are encoded once, outside."""

    def __init__(self) -> None:
        super().__init__(lambda: pyg.GINEConv(Sequential(Linear(8, 8), ReLU(), Linear(8, 8))))
        self.bonds = Embedding(4, 8)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor, batch: Tensor) -> Tensor:
        return super().forward(x, edge_index, self.bonds(edge_attr), batch)


def molecules(count: int = 12, size: int = 8) -> tuple[Tensor, ...]:
    """Random graphs with kinds of atoms and bonds."""
    parts = [random_edges(size, 10, seed=k) + k * size for k in range(count)]
    generator, edges = torch.Generator().manual_seed(0), torch.cat(parts, 1)
    atoms = torch.randint(5, (count * size,), generator=generator)
    bonds = (edges.sum(0) * 7) % 4  # the same in both directions
    return atoms, edges, bonds, torch.arange(count).repeat_interleave(size)


@pytest.mark.parametrize("rule", [rade.GradNorm(), rade.NoiseRatio()], ids=["GradNorm", "NoiseRatio"])
@pytest.mark.parametrize("build", [lambda: Molecules(lambda: BondGIN(8)), GINEMolecules], ids=["own", "GINEConv"])
@pytest.mark.usefixtures("registered")
def test_molecule_models_train_adapt_and_predict(build, rule):
    data, labels = molecules(), torch.arange(12) % 2
    net = seeded(build)
    plain = copy.deepcopy(net).eval()
    for variant in ("of", "ofs"):
        model = rade.RADE(net, variant, rule=rule, readout=rade.Readout(pool="sum"))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(2):
            optimizer.zero_grad()
            cross_entropy(model.train()(*data), labels).backward()
            assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())
            optimizer.step()
            model.adapt(*data)
        assert model.rates.p != 0.5
        assert len(model.explain(*data)) == 2
    plain.load_state_dict(net.state_dict())
    with torch.no_grad():
        of = adapting(net).eval()(*data)
        torch.testing.assert_close(of, plain(*data), rtol=1e-4, atol=1e-5)


def test_a_prediction_does_not_depend_on_the_others_of_its_batch():
    """RADE-OFS keeps expected additions, whose attributes are those of each graph."""
    atoms, edges, bonds, batch = molecules()
    model = rade.RADE(seeded(GINEMolecules), "ofs", rule=rade.Constant(0.3, 0.5), density=0.3).eval()
    together = model(atoms, edges, bonds, batch)
    first = (batch[edges[0]] == 0).nonzero().squeeze(1)
    alone = model(atoms[batch == 0], edges[:, first], bonds[first], batch[batch == 0])
    torch.testing.assert_close(alone[0], together[0], rtol=1e-4, atol=1e-5)


def test_symmetric_sums_take_messages_of_edges_as_well():
    """A GCN with bonds: Σ_j ReLU(x_j + e_ij)/√(d_i d_j)."""
    bonds = normal(GRAPH.pattern.size, IN, seed=3, dtype=torch.double)
    messages = Messages(X.relu(), (X[GRAPH.pattern.source] + bonds).relu())
    found = rade.correction.propagate(GRAPH, Symmetric(GRAPH, torch.double, 0.0), messages)
    root = GRAPH.degree.clamp(min=1).double().rsqrt()
    dense = torch.zeros(5, 5, IN, dtype=torch.double)
    dense[GRAPH.pattern.target, GRAPH.pattern.source] = messages.edges
    assert error(found, torch.einsum("i,j,ijf->if", root, root, dense)) <= 1e-12


def test_some_rows_are_rows_of_all():
    ours, _ = pair(edge_dim=DIM)
    view = sample(Law(MINE, Rates(0.4, 0.5), generator=torch.Generator().manual_seed(1)))
    rows = torch.tensor([3, 0])
    assert error(ours(X, Restricted(view, nodes_of(rows, 5)), ATTR), ours(X, view, ATTR)[rows]) <= 1e-12


def test_noise_cannot_be_undone_for_messages_of_edges():
    ours, _ = pair(edge_dim=DIM)
    with pytest.raises(ValueError, match=r"messages of single edges \(edge_attr\) cannot be summed here"):
        ours(X, rade.view.observed.Observed(MINE, Rates(0.1, 0.05)), ATTR)
    with pytest.raises(ValueError, match=r"noise in a graph cannot be undone for them"):
        ours(X, MeanView(Law(MINE, Rates(0.1, 0.1), noise=Rates(0.1, 0.05))), ATTR)


ATTENTION = {
    "GATConv": lambda nn, **options: nn.GATConv(IN, 4, heads=2, edge_dim=DIM, **options),
    "GATv2Conv": lambda nn, **options: nn.GATv2Conv(IN, 4, heads=2, edge_dim=DIM, **options),
    "TransformerConv": lambda nn, add_self_loops, fill_value, **options: nn.TransformerConv(
        IN, 4, heads=2, edge_dim=DIM, **options
    ),
}


@pytest.mark.parametrize("fill", ["mean", "add", 0.7])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_attributes_is_pygs(name, loops, fill):
    """On the Graph and for inference with any loops; uncorrected on a view where loops do not hang on its edges."""
    torch.manual_seed(0)
    theirs = ATTENTION[name](pyg, add_self_loops=loops, fill_value=fill).double()
    ours = ATTENTION[name](rade.nn, add_self_loops=loops, fill_value=fill).double()
    ours.load_state_dict(theirs.state_dict())
    expected = theirs(X, EDGE_INDEX, ATTR)
    assert torch.equal(ours(X, EDGE_INDEX, ATTR), expected)
    for adjacency in (MINE, MeanView(Law(MINE, Rates(0.3, 0.2)))):
        assert error(ours(X, adjacency, ATTR), expected) <= 1e-10
    if loops and fill != 0.7:
        return
    view = sample(Law(MINE, Rates(0.4, 0.5), "none", generator=torch.Generator().manual_seed(1)))
    ordered = ATTR[MINE.order]
    there = torch.cat([ordered[view.kept], imputed(MINE, ordered, "mean")[view.added.target]])
    assert error(ours(X, view, ATTR), theirs(X, view.edge_index, there)) <= 1e-10


class Attending(torch.nn.Module):
    """Two attentive layers with attributes, and a head."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.first, self.second = (ATTENTION[name](pyg, add_self_loops=True, fill_value="mean") for _ in range(2))
        self.narrow, self.head = Linear(8, IN), Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor) -> Tensor:
        h = self.narrow(self.first(x, edge_index, edge_attr).relu())
        return self.head(self.second(h, edge_index, edge_attr).relu())


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_with_attributes_trains_and_adapts(name, monkeypatch):
    """Exactly on small graphs, and by expansions and samples where these are taken for large."""
    edges = random_edges(30, 70)
    x, attr, labels = normal(30, IN), normal(edges.shape[1], DIM, seed=3), torch.arange(30) % 3
    for large in (False, True):
        if large:
            monkeypatch.setattr(denominator, "listing_is_cheaper", lambda scores: False)
        net = seeded(lambda: Attending(name))
        model = adapting(net, correction=rade.Correction(samples=64))
        cross_entropy(model.train()(x, edges, attr), labels).backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())
        model.adapt()
        assert model.rates.p != 0.5
        assert int(model.controller.skipped) == 0


@pytest.mark.parametrize("name", ATTENTION)
def test_large_graphs_have_nearly_the_same_moments(name, monkeypatch):
    """The expansion (GATConv) and 64 sampled non-neighbors (others) are within 15 % of the exact means; seed fixed."""
    edges = random_edges(30, 70)
    graph, x = Graph.from_edge_index(edges, 30), normal(30, IN, dtype=torch.double)
    attr = normal(edges.shape[1], DIM, seed=3, dtype=torch.double)
    conv = seeded(lambda: ATTENTION[name](rade.nn, add_self_loops=True, fill_value="mean")).double()
    law, found = Law(graph, Rates(0.3, 0.1), generator=torch.Generator().manual_seed(0)), []
    for listed in (True, False):
        monkeypatch.setattr(denominator, "listing_is_cheaper", lambda scores, listed=listed: listed)
        sent = conv.sent(None, graph, x, edge_attr=attr)
        mean = sent.coefficients.mean(law.at(Rates(0.3, 0.1)))
        found.append((mean.edges, mean.nonedges.apply(torch.ones(30, 2, 1, dtype=torch.double))))
    for exact, near in zip(*found):
        assert error(near, exact) <= 0.15
