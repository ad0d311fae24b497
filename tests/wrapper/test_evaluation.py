"""RADE-OF in evaluation runs the plain layers: whatever they accept, return or tell others."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.utils import add_self_loops

import rade
from zoo import CLASSES, EDGES, EVERY, FEATURES, LAYERS, ONE_WAY, Net, X, seeded

LOOPED = add_self_loops(EDGES)[0]
WEIGHT = torch.rand(EDGES.shape[1], generator=torch.Generator().manual_seed(1))
ZEROED = WEIGHT * (torch.arange(len(WEIGHT)) % 3 > 0)
SHUFFLED = EDGES[:, torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(0))]


def set_later() -> nn.Module:
    """PyG reads its aggregation when a layer is built."""
    conv = pyg.SAGEConv(FEATURES, CLASSES, aggr="sum")
    conv.aggr = "mean"
    return conv


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
    "integers": (lambda: pyg.SimpleConv("sum"), (LOOPED.view(-1)[: 2 * len(X)].view(-1, 2), EDGES)),
    "integer attributes": (lambda: pyg.GATConv(FEATURES, CLASSES, edge_dim=2), (X, EDGES, EDGES.t())),
    # As old mini-batch loops call a layer: the targets are the first nodes.
    "bipartite": (lambda: pyg.SAGEConv(FEATURES, CLASSES), ((X, X[:10]), EDGES[:, EDGES[1] < 10])),
    "relations": (lambda: pyg.RGCNConv(FEATURES, CLASSES, 2), (X, EDGES, (WEIGHT > 0.5).long())),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_logits(name):
    """Before any training, and after a training call, when RADE knows the graph and may sum faster."""
    build, args = CALLS[name]
    torch.manual_seed(0)
    plain = build()
    with torch.no_grad():
        expected = plain.eval()(*args)
    model = rade.RADE(copy.deepcopy(plain))
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*args), expected, rtol=0, atol=0, equal_nan=True)
        one, other = model.train()(*args), model(*args)
        torch.testing.assert_close(model.eval()(*args), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert torch.equal(one, other) == (name == "no edges")


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
    net = seeded(lambda: Net(LAYERS["GCNConv"]))
    plain = copy.deepcopy(net)
    model = rade.RADE(net).train()
    net.convs[1].eval()
    assert not torch.equal(model(X, EDGES), model(X, EDGES))
    net.convs.eval()
    with pytest.warns(UserWarning, match="no graph convolution was called in training mode"):
        torch.testing.assert_close(model(X, EDGES), plain(X, EDGES))


def test_a_graph_is_one_of_training_although_a_frozen_layer_meets_it_first():
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), "ofs").train()
    model.convs[0].eval()
    model(X, EDGES)
    whole = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), "ofs").train()
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
