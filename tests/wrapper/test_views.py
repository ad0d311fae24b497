"""Every training call draws fresh views, whatever the model does with its graph, and they are unbiased."""

import copy
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csr_tensor

import rade
import rade.graph.sparse  # takes the warning of sparse tensors, which torch gives once per process
from zoo import CLASSES, EDGES, EVERY, FEATURES, LAYERS, NODES, Net, X, seeded, wrapped


def differs(model: rade.RADE, *args: Any, **kwargs: Any) -> bool:
    """Whether two training calls do, for a model whose only randomness is that of views."""
    with torch.no_grad():
        one, other = (model.train()(*args, **kwargs) for _ in range(2))
    return bool(torch.isfinite(one).all()) and not torch.equal(one, other)


def test_both_directions_may_be_drawn_by_themselves():
    model = wrapped(rule=rade.Constant(0.5, 0.5), views=rade.Views(directed=True)).train()
    model(X, EDGES)
    (view, _) = model._context.reached.views.values()
    assert not torch.equal(view.kept, view.kept[view.graph.pattern.transposition])


def test_a_generator_or_the_seed_of_torch_reproduces_a_training():
    before, found = torch.get_rng_state(), [wrapped(seed=seed).train()(X, EDGES) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)  # which is left alone
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"]))).train()(X, EDGES))
    for one, same, other in (found[:3], found[3:]):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


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
    adj_t, plain = form(EDGES.flip(0), weights, size=(NODES, NODES)), seeded(lambda: layer(FEATURES, CLASSES))
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
