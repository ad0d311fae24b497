"""Bad input: one sentence each that says what was expected, what came, and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

import rade
import rade.graph.sparse  # takes the warning of sparse tensors, which torch gives once per process
from adapting import adapting
from zoo import ATTENTION, LAYERS, GraphNet, Net, normal, random_edges, seeded, training_step

NODES = 20
X, EDGES = normal(NODES, 8), random_edges(NODES, 40)
LABELS = torch.arange(NODES) % 3


def wrapped(**options: Any) -> rade.RADE:
    return adapting(seeded(lambda: Net(LAYERS["GCNConv"])), **options)


def change(x: Tensor, value: float) -> Tensor:
    x = x.clone()
    x[3, 2] = value
    return x


BAD_CALLS: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "index too large": ((X, EDGES + 5), ValueError, "node ids from 0 to 19, got 24"),
    "negative index": ((X, EDGES - 1), ValueError, "node ids from 0 to 19, got -1"),
    "transposed": ((X, EDGES.t()), ValueError, r"shape \[2, E\], got \[\d+, 2\]"),
    "NaN": ((change(X, float("nan")), EDGES), ValueError, "must be finite, got NaN or infinity.*nan_to_num"),
    "infinity": ((change(X, float("inf")), EDGES), ValueError, "must be finite, got NaN or infinity.*nan_to_num"),
    "sparse NaN": ((change(X, float("nan")).to_sparse_csr(), EDGES), ValueError, "must be finite"),
    "COO features": ((X.to_sparse(), EDGES), ValueError, r"torch.sparse_coo; pass x.to_sparse_csr"),
    "no graph": ((X,), TypeError, "missing 1 required positional argument: 'edge_index'"),
    "too much": ((X, EDGES, X), TypeError, "takes 3 positional arguments but 4 were given"),
    "edges of others": ((X, EDGES.tolist()), ValueError, "MessagePassing.propagate` only supports integer tensors"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_graphs_and_features(case):
    """What PyG's layers refuse in their words, what RADE cannot draw views of in its own."""
    args, kind, sentence = BAD_CALLS[case]
    with pytest.raises(kind, match=sentence):
        wrapped().train()(*args)


BAD_VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "q > 1": (lambda: rade.Rates(0.5, 2.0), r"add rate q must lie in \[0, 1\], got 2.0"),
    "variant": (lambda: wrapped(variant="off"), "variant must be one of 'of', 'ofs', 'none', got 'off'"),
    "density": (lambda: wrapped(density=2.0), r"density must lie in \[0, 1\], got 2.0"),
    "task": (
        lambda: rade.Readout(task="ranking"),
        "task must be one of 'auto', 'multiclass', 'binary', 'multilabel', 'regression', got 'ranking'",
    ),
    "pool": (lambda: rade.Readout(pool="max"), "pool must be one of 'sum', 'mean', got 'max'"),
    "pooling rule": (
        lambda: rade.Readout(pooling_rule="fast"),
        "pooling_rule must be one of 'exact', 'paper', got 'fast'",
    ),
    "head": (
        lambda: wrapped(readout=rade.Readout(head=torch.nn.Linear(6, 3))),
        "head must be a layer of the model itself, but this Linear is not part",
    ),
    "moments": (lambda: rade.Correction(moments="third"), "moments must be one of 'exact', 'delta', got 'third'"),
    "cap": (lambda: rade.Correction(cap=0.5), "cap must be 'auto', 'none' or a number >= 1, got 0.5"),
    "cap word": (lambda: rade.Correction(cap="high"), "cap must be 'auto', 'none' or a number >= 1, got 'high'"),
    "sampling": (lambda: rade.Views(sampling="poisson"), "one of 'bernoulli', 'fixed', 'expected', got 'poisson'"),
    "shared": (lambda: rade.Views(shared="no"), "shared must be True or False, got 'no'"),
    "ensemble": (lambda: rade.Ensemble(size=0), "an ensemble needs at least one view, got size = 0"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_values(case):
    build, sentence = BAD_VALUES[case]
    with pytest.raises(ValueError, match=sentence):
        build()


NOT_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "rule": ({"rule": 0.5}, r"rule must be a rade.Rule, got 0.5; constant rates are rade.Constant\(0.5, 0.5\)$"),
    "rule class": ({"rule": rade.Constant}, "rule must be a rade.Rule, got <class"),
    "views": ({"views": 8}, "views must be a rade.Views, got 8"),
    "correction": ({"correction": "of"}, "correction must be a rade.Correction, got 'of'"),
    "readout": ({"readout": "sum"}, "readout must be a rade.Readout, got 'sum'"),
    "inference": ({"inference": "ensemble"}, "inference must be a rade.Inference, got 'ensemble'"),
}


@pytest.mark.parametrize("case", NOT_VALUES)
def test_arguments_of_the_wrong_kind(case):
    options, sentence = NOT_VALUES[case]
    with pytest.raises(TypeError, match=sentence):
        wrapped(**options)


BAD_MODELS: dict[str, tuple[Any, type[Exception], str]] = {
    "no convolution": (
        lambda: torch.nn.Sequential(torch.nn.Linear(8, 3)), ValueError,
        "expected a model built from graph convolutions, but Sequential has none",
    ),
    "a mesh": (lambda: pyg.MeshCNNConv(8, 3), ValueError, r"need each of their edges \(meshes\)"),
    "wrapped twice": (lambda: adapting(pyg.GCNConv(8, 3)), ValueError, "wrapped in RADE already.*revert"),
    "class": (lambda: Net, TypeError, r"got the class Net: build it, RADE\(Net\(...\)\)"),
    "number": (lambda: 3, TypeError, "a torch.nn.Module, got 3"),
    "scripted": (
        lambda: torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2))), TypeError,
        r"wrap it before torch\.jit\.script",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_MODELS)
def test_models_that_cannot_be_wrapped(case):
    build, kind, sentence = BAD_MODELS[case]
    with pytest.raises(kind, match=sentence):
        adapting(build())


def test_rade_ofs_needs_moments_and_leaves_a_refused_model_as_it_was():
    net = torch.nn.ModuleList([pyg.GCNConv(8, 4), pyg.SAGEConv(4, 4, aggr="max")])
    classes = [type(module) for module in net.modules()]
    with pytest.raises(ValueError, match=r"RADE-OFS adds.*SAGEConv at '1' are unknown.*use RADE-OF, variant='of'"):
        rade.RADE(net, "ofs")
    assert [type(module) for module in net.modules()] == classes


class Weighted(torch.nn.Module):
    def __init__(self, conv: torch.nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        return self.conv(x, edge_index, weight)


@pytest.mark.parametrize(
    ("conv", "weight", "sentence"),
    [
        (lambda: pyg.GATConv(8, 3, edge_dim=1), torch.ones(5, 1), r"edge_attr with one row for each of the \d+ "),
        (lambda: pyg.GraphConv(8, 3), torch.ones(EDGES.shape[1], 2), r"one number for each of the \d+ entries"),
    ],
    ids=["rows missing", "two per edge"],
)
def test_bad_edge_weights_and_attributes(conv, weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        rade.RADE(Weighted(conv())).train()(X, EDGES, weight)


def test_missing_gradients():
    model = wrapped()
    model.train()(X, EDGES)
    with pytest.raises(RuntimeError, match=r"call it after loss.backward\(\) and before zero_grad\(\)"):
        model.adapt(X, EDGES)
    assert int(model.rate_state.steps) == 0
    assert model.training


BAD_ROWS: dict[str, tuple[Tensor, str]] = {
    "float": (torch.ones(5), r"labelled rows must be a vector of int64 ids or a bool mask, got torch.float32 \[5\]"),
    "int32": (torch.arange(5).int(), "labelled rows must be a vector of int64 ids or a bool mask, got torch.int32"),
    "matrix": (torch.zeros(2, 3).long(), r"got torch.int64 \[2, 3\]"),
    "short mask": (torch.ones(5, dtype=torch.bool), r"an entry for each of the 20 rows, got \[5\]"),
    "too large": (torch.tensor([0, NODES]), "labelled rows must lie between 0 and 19, got 20"),
    "negative": (torch.tensor([-1, 2]), "labelled rows must lie between 0 and 19, got -1"),
    "empty": (torch.tensor([], dtype=torch.long), "labelled must name at least one row"),
    "empty mask": (torch.zeros(NODES, dtype=torch.bool), "labelled must name at least one row"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case):
    rows, sentence = BAD_ROWS[case]
    model = wrapped()
    training_step(model, X, EDGES, labels=LABELS)
    with pytest.raises(ValueError, match=sentence):
        model.adapt(X, EDGES, labelled=rows)
    assert model.training


def test_pooling_must_be_named():
    """Graph-level logits from a model wrapped as a node-level one, and the other way round."""
    batch = torch.arange(NODES) // 10
    edges = torch.cat([random_edges(10, 20), random_edges(10, 20, seed=1) + 10], dim=1)
    model = adapting(seeded(lambda: GraphNet(LAYERS["GCNConv"])))
    training_step(model, X, edges, batch, labels=torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"expected logits for 20 nodes, got 2 rows; say how.*pool='sum'"):
        model.adapt(X, edges, batch)
    node = wrapped(readout=rade.Readout(pool="sum"))
    training_step(node, X, EDGES, labels=LABELS)
    with pytest.raises(ValueError, match=r"expected logits for 1 graphs, got 20 rows.*pool=None for node-level models"):
        node.adapt(X, EDGES)


class TwoHeads(Net):
    """Which of two linear layers is the head cannot be told."""

    def __init__(self) -> None:
        super().__init__(LAYERS["GCNConv"])
        self.gate = torch.nn.Linear(6, 1)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.head(x) * self.gate(x).sigmoid()


def test_an_ambiguous_head_asks_for_the_layer():
    net = seeded(TwoHeads)
    model = adapting(net)
    training_step(model, X, EDGES, labels=LABELS)
    with pytest.raises(ValueError, match=r"cannot tell the linear head.*head=model.lin\), or keep the rates constant"):
        model.adapt(X, EDGES)
    named = adapting(net, readout=rade.Readout(head=net.head))
    named.adapt(X, EDGES)
    assert int(named.rate_state.steps) == 1


def test_a_forward_pass_without_convolutions():
    class Skips(Net):
        def forward(self, x: Tensor, edge_index: Any) -> Tensor:
            return self.head(x[:, :6])

    model = adapting(seeded(lambda: Skips(LAYERS["GCNConv"])))
    with pytest.warns(UserWarning, match="no graph convolution was called in training mode"):
        training_step(model, X, EDGES, labels=LABELS)
    with pytest.raises(ValueError, match="called no convolution that has moments"):
        model.adapt(X, EDGES)


COMPLETE = torch.cartesian_prod(torch.arange(5), torch.arange(5)).t()
AT_THE_EDGE = {
    "no edges": (X[:4], EDGES[:, :0]),
    "one node": (X[:1], EDGES[:, :0]),
    "complete": (X[:5], COMPLETE[:, COMPLETE[0] != COMPLETE[1]]),
}


@pytest.mark.parametrize("graph", AT_THE_EDGE)
@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("layer", LAYERS | ATTENTION)
def test_graphs_at_the_edge(layer, variant, graph):
    """Training, rate steps and inference stay finite."""
    x, edges = AT_THE_EDGE[graph]
    model = adapting(seeded(lambda: Net((LAYERS | ATTENTION)[layer])), variant)
    training_step(model, x, edges, labels=LABELS[: len(x)])
    assert torch.isfinite(model.adapt(x, edges)).all()
    assert torch.isfinite(model.eval()(x, edges)).all()
    assert 0.0 <= model.rates.p < 1.0
    assert 0.0 <= model.rates.q <= 1.0
