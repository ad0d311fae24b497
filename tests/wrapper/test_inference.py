"""Predicting: by RADE-OF with the plain layers, whatever they accept, return or tell others; at other rates, by an
ensemble, and on graphs that are noisy themselves.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.utils import add_self_loops, to_torch_coo_tensor, to_torch_csr_tensor

import rade
import rade.graph.sparse  # takes the warning of sparse tensors, which torch gives once per process
from rade.correction import Adjacency
from rade.distribution import Distribution, Rates, Trust
from rade.moments.normalised import Normalised
from rade.testing import GRAPHS
from rade.testing.oracle import AllViews, adjacency, one_hot
from zoo import CLASSES, EDGES, EVERY, FEATURES, LABELS, ONE_WAY, Net, X, random_edges, seeded, training_step, wrapped

GRAPH = rade.Graph.from_edge_index(EDGES, len(X))
LOOPED = add_self_loops(EDGES)[0]
WEIGHT = torch.rand(EDGES.shape[1], generator=torch.Generator().manual_seed(1))
ZEROED = WEIGHT * (torch.arange(len(WEIGHT)) % 3 > 0)
SHUFFLED = EDGES[:, torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(0))]


def differs(model: rade.RADE, *args: Any, **kwargs: Any) -> bool:
    """Whether two training calls do, for a model whose only randomness is that of views."""
    with torch.no_grad():
        one, other = (model.train()(*args, **kwargs) for _ in range(2))
    return bool(torch.isfinite(one).all()) and not torch.equal(one, other)


def set_later() -> nn.Module:
    """PyG reads its aggregation when a layer is built."""
    conv = pyg.SAGEConv(FEATURES, CLASSES, aggr="sum")
    conv.aggr = "mean"
    return conv


class Changing(nn.Module):
    """More nodes on the same edges in the second layer, fewer edges in the third."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = pyg.GCNConv(FEATURES, 6), pyg.SAGEConv(6, 6), pyg.GCNConv(6, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(torch.cat([x, x[:2]]), edge_index)
        return self.conv3(x, edge_index[:, edge_index.sum(0) % 3 > 0])


def counted() -> nn.Module:
    steps = [(pyg.SimpleConv("sum"), "x, edge_index -> x"), (Tensor.float, "x -> x"), nn.Linear(2, CLASSES)]
    return pyg.Sequential("x, edge_index", steps)


CALLS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "one-way edges": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X, ONE_WAY)),
    "edges in any order": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X, SHUFFLED, WEIGHT)),
    "edges listed twice": (lambda: pyg.GCNConv(FEATURES, CLASSES), (X, torch.cat([EDGES, EDGES], 1))),
    "no edges": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X, EDGES[:, :0])),
    **{f"self-loops, {name}": (lambda b=EVERY[name]: b(FEATURES, CLASSES), (X, LOOPED))
       for name in ("SAGEConv", "GCNConv", "GATConv", "GraphConv", "GINConv")},
    "self-loops with weights": (lambda: pyg.GraphConv(FEATURES, CLASSES), (X, LOOPED, torch.ones(LOOPED.shape[1]))),
    **{f"{kind} weights, {name}": (lambda b=build: b(FEATURES, CLASSES), (X, EDGES, weight))
       for name, build in (("GCNConv", pyg.GCNConv), ("GraphConv", pyg.GraphConv))
       for kind, weight in (("zero", ZEROED), ("negative", WEIGHT - 0.2), ("positive", WEIGHT + 0.1))},
    "aggr set later": (set_later, (X, EDGES)),
    "lazy": (lambda: pyg.SAGEConv(-1, CLASSES), (X, EDGES)),
    "max": (lambda: pyg.SAGEConv(FEATURES, CLASSES, aggr="max"), (X, EDGES)),
    "flow": (lambda: pyg.GCNConv(FEATURES, CLASSES, flow="target_to_source"), (X, ONE_WAY)),
    "edge attributes": (lambda: pyg.GATConv(FEATURES, CLASSES, edge_dim=2), (X, EDGES, WEIGHT[:, None].expand(-1, 2))),
    "integers": (counted, (LOOPED.view(-1)[: 2 * len(X)].view(-1, 2), EDGES)),
    "integer attributes": (lambda: pyg.GATConv(FEATURES, CLASSES, edge_dim=2), (X, EDGES, EDGES.t())),
    # As old mini-batch loops call a layer: the targets are the first nodes.
    "bipartite": (lambda: pyg.SAGEConv(FEATURES, CLASSES), ((X, X[:10]), EDGES[:, EDGES[1] < 10])),
    "relations": (lambda: pyg.RGCNConv(FEATURES, CLASSES, 2), (X, EDGES, (WEIGHT > 0.5).long())),
    "another graph per layer": (Changing, (X, EDGES)),
    "EdgeIndex": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X, EdgeIndex(EDGES, sparse_size=(len(X), len(X))))),
    "sparse features": (lambda: pyg.GCN(FEATURES, 6, 2, CLASSES), (X.to_sparse_csr(), EDGES)),
    "rade.Graph": (lambda: Net(EVERY["GCNConv"]), (X, GRAPH)),
}  # fmt: skip
SUMMED, NEAR = ("sparse features", "rade.Graph"), {"rtol": 1e-4, "atol": 1e-5}  # by RADE, in an order of its own


@pytest.mark.filterwarnings("ignore:Sparse invariant")
@pytest.mark.parametrize("name", CALLS)
def test_models_are_called_as_they_are(name):
    """Logits before any training and after a training call, when RADE knows the graph and may sum faster.

    In training views and gradients; `benchmarks/models.py` tries many more.
    """
    build, args = CALLS[name]
    plain, given = seeded(build), [EDGES if isinstance(value, rade.Graph) else value for value in args]
    with torch.no_grad():
        expected = plain.eval()(*given)
        model, first = rade.RADE(copy.deepcopy(plain)), NEAR if name in SUMMED else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(model.eval()(*args), expected, **first, equal_nan=True)
    one, other = model.train()(*args), model(*args)
    assert torch.equal(one, other) == (name == "no edges")
    assert bool(one.isfinite().all()) or name.startswith("negative")
    one.square().sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*args), expected, **NEAR, equal_nan=True)
    assert rade.check(plain, *given).works


REPEATED = torch.cat([EDGES, EDGES[:, :4]], 1)  # which has no moments
CACHED = {
    "GCNConv": lambda: pyg.GCNConv(FEATURES, CLASSES, cached=True),
    "SGConv": lambda: pyg.SGConv(FEATURES, CLASSES, K=2, cached=True),
    "SSGConv": lambda: pyg.SSGConv(FEATURES, CLASSES, 0.3, K=2, cached=True),
    "EGConv": lambda: pyg.EGConv(FEATURES, CLASSES * 2, num_heads=2, num_bases=2, cached=True),
}


@pytest.mark.parametrize("edges", [EDGES, REPEATED], ids=["moments", "pairs"])
@pytest.mark.parametrize("name", CACHED)
def test_a_layer_with_a_cache_draws_views_all_the_same(name, edges):
    """Only evaluation uses it, and keeps what is of the clean graph."""
    conv = seeded(CACHED[name])
    plain, model = copy.deepcopy(conv).eval(), wrapped(conv)
    caches = [key for key in vars(conv) if key.startswith("_cached_")]
    for _ in range(2):
        assert differs(model, X, edges)
        torch.testing.assert_close(model.eval()(X, edges), plain(X, edges))
        assert any(vars(conv)[key] is not None for key in caches)


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:Converting sparse tensor")
@pytest.mark.parametrize("weights", [None, torch.linspace(0.5, 1.5, EDGES.shape[1])], ids=["ones", "weights"])
@pytest.mark.parametrize("form", [to_torch_csr_tensor, to_torch_coo_tensor], ids=["csr", "coo"])
@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.GraphConv, pyg.SAGEConv])
def test_views_of_a_transposed_sparse_adjacency(layer, form, weights):
    """The mean over 400 views is the plain output to five deviations; entries that are no weights have no views."""
    adj_t, plain = form(EDGES.flip(0), weights, size=(len(X), len(X))), seeded(lambda: layer(FEATURES, CLASSES))
    model = wrapped(copy.deepcopy(plain))
    if layer is pyg.SAGEConv and weights is not None:
        with pytest.warns(UserWarning, match=r"SAGEConv aggregated as without RADE: edges came as a sparse matrix"):
            torch.testing.assert_close(model.train()(X, adj_t), plain(X, adj_t))
        assert "as without RADE" in str(rade.check(plain, X, adj_t))
    else:
        assert differs(model, X, adj_t)
        with torch.no_grad():
            seen = torch.stack([model(X, adj_t) for _ in range(400)])
            away = (seen.mean(0) - plain(X, adj_t)).abs() / (seen.std(0) / 400**0.5 + 1e-6)
        assert float(away.max()) < 5
    torch.testing.assert_close(model.eval()(X, adj_t), plain(X, adj_t))


def test_a_model_in_bfloat16():
    plain = seeded(lambda: pyg.GCN(FEATURES, 16, 2, CLASSES))
    model = rade.RADE(copy.deepcopy(plain))
    model.train()(X, EDGES)
    found = model.bfloat16().eval()(X.bfloat16(), EDGES)
    torch.testing.assert_close(found, plain.bfloat16()(X.bfloat16(), EDGES))


WEIGHING: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "GAT": (lambda: pyg.GATConv(FEATURES, CLASSES), (X, EDGES)),
    "GATv2": (lambda: pyg.GATv2Conv(FEATURES, CLASSES), (X, EDGES)),
    "Transformer": (lambda: pyg.TransformerConv(FEATURES, CLASSES, heads=2), (X, EDGES)),
    "FA": (lambda: pyg.FAConv(FEATURES), (X, X, EDGES)),
    "RGAT": (lambda: pyg.RGATConv(FEATURES, CLASSES, 2), (X, EDGES, EDGES.sum(0) % 2)),
}


@pytest.mark.parametrize("name", WEIGHING)
def test_attention_weights_that_are_returned_are_of_the_clean_graph(name):
    """In training beside outputs by pairs of views."""
    build, args = WEIGHING[name]
    plain = seeded(build)
    model = rade.RADE(copy.deepcopy(plain))
    expected, (edges, weights) = plain(*args, return_attention_weights=True)
    model.train()(*args)
    for training in (False, True):
        found, (same_edges, same_weights) = model.train(training)(*args, return_attention_weights=True)
        assert torch.equal(same_weights, weights)
        assert torch.equal(same_edges, edges)
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1.3e-6, atol=1e-5) is not training


@pytest.mark.parametrize("kind", [pyg.GCN, pyg.GAT, pyg.GraphSAGE])
def test_hooks_fire(kind):
    """Those of layers, set before; and of messages, where RADE knows the graph: in training of pairs of views."""
    net, seen, called = seeded(lambda: kind(FEATURES, 6, 2, CLASSES)), [], []
    net.convs[0].register_forward_hook(lambda *_: called.append(1))
    model = rade.RADE(net)
    model.train()(X, EDGES)
    assert called == [1]
    expected = model.eval()(X, EDGES)
    hooks = [conv.register_message_forward_hook(lambda *_: seen.append(1)) for conv in net.convs]
    torch.testing.assert_close(model(X, EDGES), expected)
    assert len(seen) == 2
    model.train()(X, EDGES)
    assert len(seen) > 4
    for hook in hooks:
        hook.remove()
    model.eval()(X, EDGES)


@pytest.mark.parametrize(("variant", "sparse"), [("of", True), ("ofs", False)])
def test_inference_mode_leaves_training_possible(variant, sparse):
    model = rade.RADE(seeded(lambda: pyg.GCN(FEATURES, 8, 2, CLASSES)), variant, density=0.2)
    x = X.to_sparse_csr() if sparse else X
    with torch.inference_mode():
        before = model.eval()(x, EDGES)
        model.explain(x, EDGES)
        torch.testing.assert_close(model(x.clone(), EDGES.clone()), before)
    model.train()(x, EDGES).sum().backward()
    model.adapt(x, EDGES)
    torch.testing.assert_close(model.eval()(x, EDGES), before)


def test_a_part_in_evaluation_mode_is_clean():
    """Frozen layers are: each layer asks for its own mode."""
    net = seeded(lambda: Net(EVERY["GCNConv"]))
    plain = copy.deepcopy(net)
    model = rade.RADE(net).train()
    net.convs[1].eval()
    assert not torch.equal(model(X, EDGES), model(X, EDGES))
    net.convs.eval()
    with pytest.warns(UserWarning, match="no graph convolution was called in training mode"):
        torch.testing.assert_close(model(X, EDGES), plain(X, EDGES))


def test_a_graph_is_one_of_training_although_a_frozen_layer_meets_it_first():
    model, whole = (wrapped(Net(EVERY["GCNConv"]), "ofs").train() for _ in range(2))
    model.convs[0].eval()
    model(X, EDGES)
    whole(X, EDGES)
    assert model.rates == whole.rates
    assert int(model.rate_state.nodes) == len(X)


def explained(model: nn.Module, algorithm: Any) -> Tensor:
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(model.eval(), algorithm, "model", model_config=config, edge_mask_type="object")
    torch.manual_seed(0)
    return explainer(X, EDGES, index=3).edge_mask


@pytest.mark.parametrize("algorithm", [AttentionExplainer, lambda: GNNExplainer(epochs=5)], ids=["attention", "GNN"])
def test_explainers_of_pyg_find_what_they_find_in_the_plain_model(algorithm):
    """They leave a `propagate` in each layer: an explained model can be wrapped, trains on views, and reverts."""
    plain = seeded(lambda: pyg.GAT(FEATURES, 16, 2, CLASSES)).eval()
    model, logits = rade.RADE(copy.deepcopy(plain)), plain(X, EDGES)
    model.train()(X, EDGES)
    expected, found = (explained(net, algorithm()) for net in (plain, model))
    assert float(expected.sum()) > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for given in (model, rade.RADE(plain)):
        assert not torch.equal(given.train()(X, EDGES), given(X, EDGES))
        torch.testing.assert_close(rade.revert(given).eval()(X, EDGES), logits)


def trained(variant: str = "ofs", **options: Any) -> rade.RADE:
    model = wrapped(variant=variant, **options)
    training_step(model, X, EDGES, labels=LABELS)
    model.adapt(X, EDGES)
    return model.eval()


def test_rates_of_an_inference():
    """`Expected(rates=...)` predicts at them; training and rate steps have their own; RADE-OF is clean at any."""
    model = trained()
    twice = rade.Expected(rates=model.rates.scaled(2.0))
    other = trained(inference=twice)
    assert other.rates == model.rates
    torch.testing.assert_close(other(X, EDGES), model.by(twice)(X, EDGES))
    assert torch.equal(other.by(rade.Expected(rates=model.rates))(X, EDGES), model(X, EDGES))
    assert torch.equal(*(m.train()(X, EDGES) for m in (model, other)))
    with pytest.raises(RuntimeError, match=r"model.by\(inference\) is for evaluation: call model.eval\(\) first"):
        model.by(twice)(X, EDGES)
    clean = trained("of")
    assert torch.equal(clean.by(rade.Expected(rates=Rates(0.9, 0.5)))(X, EDGES), clean(X, EDGES))


def test_an_ensemble_draws_at_its_rates():
    still = trained("of", inference=rade.Ensemble(size=2, rates=Rates(0.0, 0.0)))
    torch.testing.assert_close(still(X, EDGES), still.wrapped(X, GRAPH))
    assert not torch.allclose(still.by(rade.Ensemble(2, rates=Rates(0.5, 0.1)))(X, EDGES), still(X, EDGES))


@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "GATConv"])
def test_training_on_the_mean_over_views_is_what_inference_does(name, variant):
    """Nothing is drawn: logits of training are those of evaluation, and gradients flow."""
    net, views = seeded(lambda: Net(EVERY[name])), rade.Views(sampling="expected")
    model = wrapped(net, variant, rule=rade.Constant(0.3, 0.5), views=views)
    output = model.train()(X, EDGES)
    assert not model._context.reached.views
    torch.testing.assert_close(output, model.eval()(X, EDGES))
    output.square().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in net.parameters())


def test_who_trains_on_the_mean_can_still_look_at_views():
    model = trained(rule=rade.Constant(0.5, 0.5), views=rade.Views(sampling="expected"))
    assert model.uncertainty(X, EDGES, views=8).sampled_std.max() > 0
    assert model.noise_report(X, EDGES, views=8).sampled > 0
    assert not torch.equal(model.by(rade.Ensemble(2))(X, EDGES), model(X, EDGES))


@pytest.mark.parametrize("noise", [Rates(0.15, 0.1), Rates(0.0, 0.2), Rates(0.4, 0.0)], ids=str)
@pytest.mark.parametrize("name", ["path", "star", "near-clique", "two-components", "batch"])
def test_denoised_sums_are_unbiased(name, noise):
    """All noisy versions of a clean graph as one batch; also where real edges weigh 0.8 and spurious ones 0.3."""
    clean, none = GRAPHS[name], Rates(0.0, 0.0)
    views, n, eye = AllViews(Distribution(clean, noise)), clean.num_nodes, one_hot(clean)
    graph = rade.Graph.from_edge_index(views.view.edge_index, views.copies.num_nodes, views.copies.batch)
    real = adjacency(clean)[graph.pattern.target % n, graph.pattern.source % n]
    trust = Trust(0.3 + 0.5 * real.double(), spurious=0.3, real=0.8)

    def away(noise: Rates, trust: Trust) -> float:
        over = Adjacency(graph, Distribution(graph, none, noise=noise, trust=trust))
        out = over.aggregate(Normalised.sum(graph, torch.double), views.repeat(eye))
        return float((views.mean(out.view(views.count, n, n)) - adjacency(clean).double()).abs().max())

    assert max(away(noise, Trust()), away(noise, trust)) < 1e-10
    assert away(none, Trust()) > 0.05


def still(name: str = "GCNConv", **options: Any) -> rade.RADE:
    """At rates 0 the only view is the graph."""
    return wrapped(seeded(lambda: Net(EVERY[name])), rule=rade.Constant(0.0, 0.0), **options).eval()


@pytest.mark.parametrize("trusting", [False, True], ids=["all alike", "trust"])
@pytest.mark.parametrize("name", ["GCNConv", "GINConv", "SAGEConv", "GraphConv"])
def test_training_and_inference_know_the_noise_of_the_data(name, trusting):
    weights = 0.5 + 0.5 * (torch.arange(GRAPH.pattern.size) % 3 > 0)
    wanted = rade.Denoised(Rates(0.1, 0.02), *[Trust(weights, spurious=0.6, real=0.9)] * trusting)
    model, expected = still(name, noise=wanted), still(name).by(wanted)(X, EDGES)
    for found in (model(X, EDGES), model.train()(X, EDGES), still(name, inference=wanted)(X, EDGES)):
        torch.testing.assert_close(found, expected)
    plain = still(name)
    assert not torch.allclose(expected, plain(X, EDGES))
    assert torch.equal(plain.by(rade.Denoised())(X, EDGES), plain(X, EDGES))
    if trusting:
        with pytest.raises(ValueError, match="trust was found for another graph"):
            model(X, random_edges(40, 90))


def test_attention_keeps_its_dropout_in_training_on_the_mean():
    net, views = seeded(lambda: Net(lambda i, o: pyg.GATConv(i, o, dropout=0.6))), rade.Views(sampling="expected")
    noisy = wrapped(net, "ofs", rule=rade.Constant(0.2, 0.2), views=views, noise=Rates(0.0, 0.01)).train()
    assert not torch.equal(noisy(X, EDGES), noisy(X, EDGES))
    assert torch.equal(noisy.eval()(X, EDGES), noisy(X, EDGES))
