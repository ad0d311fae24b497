"""Every training call draws fresh views, whatever the model does with its graph, and they are unbiased."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data
from torch_geometric.utils import degree, to_dense_adj

import rade
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded, training_step

NODES, FEATURES, CLASSES = 40, 8, 3
X, EDGES = normal(NODES, FEATURES), random_edges(NODES, 80)
ONE_WAY = EDGES[:, EDGES[0] < EDGES[1]]
LABELS = torch.arange(NODES) % CLASSES
EVERY = {**LAYERS, **ATTENTION}


def wrapped(net: Any = None, variant: str = "of", seed: int = 0, **options: Any) -> rade.RADE:
    net = seeded(lambda: Net(LAYERS["GCNConv"])) if net is None else net
    return rade.RADE(net, variant, generator=torch.Generator().manual_seed(seed), **options).train()


def views_of(model: rade.RADE, *args: Any, **kwargs: Any) -> list[rade.View]:
    """The views that a call draws."""
    drawn: list[rade.View] = []
    draw = model._context.draw

    def noting(distribution: Any) -> rade.View:
        drawn.append(draw(distribution))
        return drawn[-1]

    model._context.draw = noting  # type: ignore[method-assign]
    try:
        model(*args, **kwargs)
    finally:
        del model._context.__dict__["draw"]
    return drawn


def differs(model: rade.RADE, *args: Any, **kwargs: Any) -> bool:
    """Whether two training calls do, for a model whose only randomness is that of views."""
    with torch.no_grad():
        one, other = (model.train()(*args, **kwargs) for _ in range(2))
    return bool(torch.isfinite(one).all()) and not torch.equal(one, other)


class TestViews:
    def test_each_layer_has_its_own_and_each_call_new_ones(self):
        first, second, third, fourth = (*views_of(model := wrapped(), X, EDGES), *views_of(model, X, EDGES))
        seen = [view.kept.tolist() for view in (first, second, third, fourth)]
        assert all(one != other for k, one in enumerate(seen) for other in seen[:k])

    def test_a_shared_view_is_one_for_all_layers_and_new_on_every_call(self):
        model = wrapped(views=rade.Views(shared=True))
        (first,), (second,) = views_of(model, X, EDGES), views_of(model, X, EDGES)
        assert not torch.equal(first.kept, second.kept)

    @pytest.mark.parametrize(("p", "rho"), [(0.5, 0.0), (0.0, 0.5)], ids=["drops", "additions"])
    def test_drops_or_additions_alone(self, p, rho):
        (view, _) = views_of(wrapped(rule=rade.Constant(p, rho)), X, EDGES)
        assert bool(view.kept.all()) == (p == 0)
        assert (view.added.size == 0) == (rho == 0)

    def test_both_directions_of_an_edge_go_together(self):
        (view, _) = views_of(wrapped(rule=rade.Constant(0.5, 0.5)), X, EDGES)
        assert torch.equal(view.kept, view.kept[view.graph.pattern.transposition])

    def test_a_generator_reproduces_a_training_and_torch_is_left_alone(self):
        before = torch.get_rng_state()
        one, other = (wrapped()(X, EDGES) for _ in range(2))
        assert torch.equal(one, other)
        assert not torch.equal(one, wrapped(seed=1)(X, EDGES))
        assert torch.equal(torch.get_rng_state(), before)

    def test_the_seed_of_torch_reproduces_a_training(self):
        found = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            found.append(rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"]))).train()(X, EDGES))
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])

    @pytest.mark.parametrize("variant", ["of", "ofs", "none"])
    @pytest.mark.parametrize("name", EVERY)
    def test_gradients_reach_every_parameter(self, name, variant):
        model = wrapped(seeded(lambda: Net(EVERY[name])), variant)
        training_step(model, X, EDGES, labels=LABELS)
        assert all(bool(p.grad.abs().sum() > 0) for p in model.parameters())

    @pytest.mark.parametrize("variant", ["of", "ofs"])
    @pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GATConv"])
    def test_their_mean_is_the_prediction(self, name, variant):
        """One layer, 5 standard errors; attention within its expansion."""
        views = 200 if name == "GATConv" else 1000
        model = wrapped(seeded(lambda: EVERY[name](FEATURES, CLASSES)), variant, rule=rade.Constant(0.3, 0.5))
        with torch.no_grad():
            seen = torch.stack([model(X, EDGES) for _ in range(views)]).double()
            away = (seen.mean(0) - model.eval()(X, EDGES)).abs()
        assert bool((away <= 5 * seen.std(0) / views**0.5 + (0.02 if name == "GATConv" else 1e-6)).all())

    @pytest.mark.parametrize("variant", ["of", "ofs"])
    @pytest.mark.parametrize("name", ["GCNConv", "GINConv", "GATConv"])
    def test_training_on_the_mean_over_views_is_what_inference_does(self, name, variant):
        """Nothing is drawn: logits of training are those of evaluation, the generator stays, gradients flow."""
        net = seeded(lambda: Net(EVERY[name]))
        model = wrapped(net, variant, rule=rade.Constant(0.3, 0.5), views=rade.Views(sampling="expected"))
        model(X, EDGES)  # the density is seen
        assert not views_of(model, X, EDGES)
        output = model(X, EDGES)
        torch.testing.assert_close(output, model.eval()(X, EDGES))
        output.square().sum().backward()
        assert all(bool(parameter.grad.isfinite().all()) for parameter in net.parameters())


class TestBatches:
    """Nothing is added between different graphs."""

    data = Batch.from_data_list(
        [Data(x=normal(9 + k, FEATURES, seed=k), edge_index=random_edges(9 + k, 14, seed=k)) for k in range(5)]
    )
    rule = rade.Constant(0.2, 3.0)

    def assert_apart(self, views: list[rade.View], batch: Tensor) -> None:
        assert all(view.added.size > 0 for view in views)
        assert all(torch.equal(batch[view.added.source], batch[view.added.target]) for view in views)

    @pytest.mark.parametrize("how", ["by position", "by name", "Data"])
    def test_a_batch_vector(self, how):
        class Takes(Net):
            def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
                return super().forward(x, edge_index)

        class TakesData(Net):
            def forward(self, data: Data) -> Tensor:
                return super().forward(data.x, data.edge_index)

        data = self.data
        model = wrapped((TakesData if how == "Data" else Takes)(LAYERS["GCNConv"]), rule=self.rule)
        if how == "Data":
            views = views_of(model, data)
        elif how == "by name":
            views = views_of(model, data.x, edge_index=data.edge_index, batch=data.batch)
        else:
            views = views_of(model, data.x, data.edge_index, data.batch)
        self.assert_apart(views, data.batch)

    def test_a_batch_vector_that_is_not_ascending(self):
        """The nodes of two graphs in turn."""
        batch = torch.arange(NODES) % 2
        edges = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]

        class Takes(Net):
            def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
                return super().forward(x, edge_index)

        model = wrapped(Takes(LAYERS["GCNConv"]), rule=self.rule)
        plain = copy.deepcopy(model.wrapped)
        self.assert_apart(views_of(model, X, edges, batch), batch)
        torch.testing.assert_close(model.eval()(X, edges, batch), rade.revert(plain)(X, edges, batch))

    def test_the_same_edges_with_other_boundaries_are_another_graph(self):
        class Takes(Net):
            def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
                return super().forward(x, edge_index)

        batch = torch.arange(NODES) // 20
        edges = EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]]
        model = rade.RADE(seeded(lambda: Takes(LAYERS["GCNConv"])), "ofs", density=0.3).eval()
        one, two = model(X, edges), model(X, edges, batch)
        assert not torch.allclose(one, two)
        assert torch.equal(model(X, edges), one)


class Outside(nn.Module):
    """Reads its graph from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.data = pyg.GCNConv(FEATURES, CLASSES), Data(x=X, edge_index=EDGES)

    def forward(self) -> Tensor:
        return self.conv(self.data.x, self.data.edge_index)


class Pooling(nn.Module):
    """TopKPooling between convolutions, and a readout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.pool, self.conv2 = pyg.GraphConv(FEATURES, 8), pyg.TopKPooling(8), pyg.GraphConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        x, edge_index, _, batch, _, _ = self.pool(self.conv1(x, edge_index).relu(), edge_index, None, batch)
        return pyg.global_mean_pool(self.conv2(x, edge_index), batch)


class Asking(nn.Module):
    """Looks at its edges as at any tensor, and uses PyG's utilities on them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GraphConv(FEATURES + 2, CLASSES)

    def forward(self, data: Data) -> Tensor:
        assert isinstance(data.edge_index, Tensor)
        assert data.num_edges == EDGES.shape[1]
        row, col = data.edge_index
        size = to_dense_adj(data.edge_index)[0].sum(1)
        x = torch.cat([data.x, degree(col, data.num_nodes)[:, None], size[:, None]], 1)
        weight = (x[row, 0] - x[col, 0]).exp().clamp(0.1, 10)
        return self.conv(x, torch.cat([data.edge_index, data.edge_index.flip(0)[:, :0]], 1), weight)


class Alternating(nn.Module):
    """Another graph for every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.SAGEConv(FEATURES, 6), pyg.SAGEConv(6, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index[:, edge_index.sum(0) % 3 > 0])


class Growing(nn.Module):
    """The same edges with more nodes in the second layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        return self.conv2(torch.cat([x, x[:2]]), edge_index)


GRAPHS_OF_OTHERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "from outside": (Outside, ()),
    "TopKPooling": (Pooling, (X, EDGES)),
    "TopKPooling of a batch": (Pooling, (X, EDGES, torch.zeros(NODES, dtype=torch.long))),
    "GraphUNet": (lambda: pyg.GraphUNet(FEATURES, 8, CLASSES, depth=2), (X, EDGES)),
    "Data, asked about": (Asking, (Data(x=X, edge_index=EDGES),)),
    "another graph per layer": (Alternating, (X, EDGES)),
    "more nodes, the same edges": (Growing, (X, EDGES)),
    "one-way edges": (lambda: pyg.GraphSAGE(FEATURES, 6, 2, CLASSES), (X, ONE_WAY)),
    "edges listed twice": (lambda: pyg.GraphSAGE(FEATURES, 6, 2, CLASSES), (X, torch.cat([EDGES, EDGES], 1))),
    "EdgeIndex": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X, EdgeIndex(EDGES, sparse_size=(NODES, NODES)))),
    "sparse features": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X.to_sparse_csr(), EDGES)),
    "rade.Graph": (lambda: Net(LAYERS["GCNConv"]), (X, rade.Graph.from_edge_index(EDGES, NODES))),
    "own class of layer": (lambda: OwnLayer(FEATURES, CLASSES), (X, EDGES)),
    "JumpingKnowledge": (lambda: pyg.GCN(FEATURES, 6, 3, CLASSES, jk="lstm"), (X, EDGES)),
}


class OwnLayer(pyg.MessagePassing):
    """Sums by messages of its own."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__(aggr="mean")
        self.lin = nn.Linear(2 * features, out)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.lin(torch.cat([x_i, x_j - x_i], 1)).tanh()


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("name", GRAPHS_OF_OTHERS)
def test_models_are_called_as_they_are(name):
    """Views in training, gradients, and evaluation that is the plain model's."""
    build, args = GRAPHS_OF_OTHERS[name]
    net = seeded(build)
    plain = copy.deepcopy(net).eval()
    model = wrapped(net)
    assert differs(model, *args)
    model(*args).square().sum().backward()
    assert any(parameter.grad is not None for parameter in net.parameters())
    given = [EDGES if isinstance(value, rade.Graph) else value for value in args]
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*args), plain(*given), rtol=1e-4, atol=1e-5)
    assert rade.check(seeded(build), *given).works


class Coder(nn.Module):
    """A discriminator's rows come before what it judges."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = pyg.GCNConv(FEATURES, 6), pyg.GCNConv(6, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden, edge_index), self.conv2(hidden, edge_index)


@pytest.mark.parametrize(
    "build",
    [
        lambda: pyg.GAE(pyg.GCN(FEATURES, 16, 2)),
        lambda: pyg.ARGA(pyg.GCN(FEATURES, 16, 2), nn.Linear(16, 1)),
        lambda: pyg.VGAE(Coder()),
    ],
    ids=["GAE", "ARGA", "VGAE"],
)
def test_autoencoders_encode_on_views(build):
    plain = seeded(build).eval()
    model = wrapped(copy.deepcopy(plain))
    seen = []
    for _ in range(2):
        torch.manual_seed(0)  # a variational one draws more than views
        seen.append(model.train().encode(X, EDGES))
    assert not torch.equal(*seen)
    model.recon_loss(seen[0], EDGES).backward()
    torch.testing.assert_close(model.eval().encode(X, EDGES), plain.encode(X, EDGES))


def test_a_layer_with_a_cache_draws_views_all_the_same():
    """Only evaluation uses it."""
    conv = pyg.GCNConv(FEATURES, CLASSES, cached=True)
    model = wrapped(conv)
    assert differs(model, X, EDGES)
    assert conv._cached_edge_index is None
    before = model.eval()(X, EDGES)
    assert conv._cached_edge_index is not None
    assert differs(model, X, EDGES)
    torch.testing.assert_close(model.eval()(X, EDGES), before)


def test_two_models_may_share_layers():
    """The last wrapper's settings hold for a shared layer, and each model draws its own views."""
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    one, two = wrapped(net), wrapped(copy.deepcopy(net), seed=1)
    assert not torch.equal(one(X, EDGES), two(X, EDGES))
    shared = seeded(lambda: Net(LAYERS["GCNConv"]))
    shared.convs[0], again = pyg.GCNConv(FEATURES, 6), seeded(lambda: Net(LAYERS["GCNConv"]))
    again.convs[0] = shared.convs[0]
    models = [wrapped(shared), wrapped(again, seed=1)]
    for model in models:
        assert differs(model, X, EDGES)
    sum(cross_entropy(model(X, EDGES), LABELS) for model in models).backward()
    torch.testing.assert_close(models[0].eval()(X, EDGES), rade.revert(copy.deepcopy(models[0]))(X, EDGES))


def test_a_layer_called_again_meets_another_view():
    """A linear model's mean over views is its inference: 600 views within 5 standard errors; a shared one is not."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(FEATURES, FEATURES, bias=False)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(self.conv(self.conv(x, edge_index), edge_index), edge_index)

    away = []
    for shared in (False, True):
        model = wrapped(seeded(Tied), rule=rade.Constant(0.5, 0.5), views=rade.Views(shared=shared))
        with torch.no_grad():
            drawn = torch.stack([model.train()(X, EDGES) for _ in range(600)]).double()
            away.append(float(((drawn.mean(0) - model.eval()(X, EDGES)) / (drawn.std(0) / 600**0.5)).abs().max()))
    assert away[0] < 5 < away[1]


def test_inputs_are_not_changed():
    x, edges, data = X.clone(), EDGES.clone(), Data(x=X.clone(), edge_index=EDGES)
    wrapped()(x, edges).sum().backward()
    wrapped(Asking())(data)
    assert torch.equal(x, X)
    assert torch.equal(edges, EDGES)
    assert data.edge_index is EDGES
    assert sorted(data.keys()) == ["edge_index", "x"]
