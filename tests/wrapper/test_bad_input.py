"""Bad input: one sentence each that says what was expected, what came, and what to do; and graphs at the edge."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

import rade
import rade.graph.sparse  # takes the warning of sparse tensors, which torch gives once per process
from zoo import EDGES, EVERY, LABELS, LAYERS, NODES, Ends, Net, TwoHeads, X, adapting, seeded, training_step


def call(*args: Any, net: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: adapting(copy.deepcopy(net), **options).train()(*args)


def weightless() -> nn.Module:
    conv = rade.nn.GCNConv(8, 3, add_self_loops=False)
    conv.added_weight = 0.0
    return conv


def given(model: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: adapting(None if model is None else model(), **options)


def stepped(rows: Tensor | None, net: Any = None, **options: Any) -> Callable[[], Any]:
    def step() -> None:
        model = adapting(net, **options)
        training_step(model, X, EDGES, labels=LABELS)
        model.adapt(X, EDGES, labelled=rows)

    return step


GINE, ATTR = pyg.GINEConv(nn.Linear(8, 3), edge_dim=2), X[EDGES[0], :2]
ROWS = "labelled rows must be a vector of int64 ids or"
BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # What PyG's layers refuse in their words, what RADE cannot draw views of in its own.
    "index too large": (call(X, EDGES + 5), ValueError, "node ids from 0 to 39, got 44"),
    "targets too few": (call((X, X[:10]), EDGES, net=pyg.SAGEConv(8, 3)), ValueError, "node ids from 0 to 9, got 39"),
    "transposed": (call(X, EDGES.t()), ValueError, r"shape \[2, E\], got \[\d+, 2\]"),
    "COO features": (call(X.to_sparse(), EDGES), ValueError, r"torch.sparse_coo; pass x.to_sparse_csr"),
    "rows of attributes": (call(X, EDGES, ATTR[1:], net=GINE), ValueError, r"edge_attr with one row for each.*, 2\]"),
    "no attributes": (call(X, EDGES, net=GINE), ValueError, "needs edge_attr .* got None"),
    "narrow attributes": (
        call(X, EDGES, ATTR, net=pyg.GINEConv(nn.Linear(8, 3))), ValueError,
        "GINEConv adds edge_attr to features: expected 8 columns, got 2; set",
    ),
    "noisy attributes": (
        call(X, EDGES, ATTR, net=GINE, noise=rade.Rates(0.1, 0.05)), ValueError,
        "cannot be undone for messages of single edges",
    ),
    "two weights": (call(X, EDGES, ATTR, net=pyg.GraphConv(8, 3)), ValueError, r"one number for each of the \d+ entr"),
    "weightless": (
        call(X, EDGES, ATTR[:, 0].exp(), net=weightless()), ValueError,
        "added edges must weigh something without self-loops, got added_weight = 0.0",
    ),
    "bfloat16": (call(X.bfloat16(), EDGES), ValueError, r"on a CPU, got features in bfloat16.*torch\.autocast"),
    "NaN": (call(X.where(X < 1.0, torch.nan), EDGES, net=pyg.GATConv(8, 3)), ValueError, "scores must be finite"),
    "optimizer": (lambda: adapting().follow("adam"), TypeError, "follow takes the optimizer that steps, .* got 'adam'"),
    "other optimizer": (
        lambda: adapting().follow(torch.optim.Adam(nn.Linear(2, 2).parameters())), ValueError,
        "holds no parameter of this model",
    ),
    "variant": (given(variant="off"), ValueError, "variant must be one of 'of', 'ofs', 'none', got 'off'"),
    "density": (given(density=2.0), ValueError, r"density must lie in \[0, 1\], got 2.0"),
    "task": (lambda: rade.Readout(task="ranking"), ValueError, "task must be one of 'auto', .* got 'ranking'"),
    "pool": (lambda: rade.Readout(pool="max"), ValueError, "pool must be one of 'sum', 'mean', got 'max'"),
    "pooling rule": (lambda: rade.Readout(pooling_rule="fast"), ValueError, "one of 'exact', 'paper', got 'fast'"),
    "head": (given(readout=rade.Readout(head=nn.Linear(6, 3))), ValueError, "but this Linear is not part"),
    "ensemble": (lambda: rade.Ensemble(size=0), ValueError, "an ensemble needs at least one view, got size = 0"),
    "rule": (given(rule=0.5), TypeError, r"a rade.Rule, got 0.5; constant rates are rade.Constant\(0.5, 0.5\)$"),
    "rule class": (given(rule=rade.Constant), TypeError, "rule must be a rade.Rule, got <class"),
    "views": (given(views=8), TypeError, "views must be a rade.Views, got 8"),
    "correction": (given(correction="of"), TypeError, "correction must be a rade.Correction, got 'of'"),
    "readout": (given(readout="sum"), TypeError, "readout must be a rade.Readout, got 'sum'"),
    "inference": (given(inference="ensemble"), TypeError, "inference must be a rade.Inference, got 'ensemble'"),
    "much noise": (
        call(X, EDGES, noise=rade.Rates(0.7, 0.3)), ValueError, "must add up to less than 1, got p = 0.7 and q = 0.3"
    ),
    "noise alone": (call(X, EDGES, noise=rade.Rates(0.0, 0.5)), ValueError, "leaves no real edge in a graph of dens"),
    "noise": (given(noise=0.1), TypeError, "noise must be a rade.Rates or a rade.Denoised, got 0.1"),
    "no convolution": (
        given(lambda: nn.Sequential(nn.Linear(8, 3))), ValueError,
        "expected a model built from graph convolutions, but Sequential has none",
    ),
    "a mesh": (given(lambda: pyg.MeshCNNConv(8, 3)), ValueError, r"need each of their edges \(meshes\)"),
    "wrapped twice": (given(adapting), ValueError, "wrapped in RADE already.*revert"),
    "class": (given(lambda: Net), TypeError, r"got the class Net: build it, RADE\(Net\(...\)\)"),
    "number": (given(lambda: 3), TypeError, "a torch.nn.Module, got 3"),
    "rows of floats": (stepped(torch.ones(5)), ValueError, ROWS + r" a bool mask, got torch.float32 \[5\]"),
    "rows in a matrix": (stepped(torch.zeros(2, 3).long()), ValueError, ROWS + r" a bool mask, got torch.int64 \[2"),
    "short mask": (stepped(torch.ones(5).bool()), ValueError, r"an entry for each of the 40 rows, got \[5\]"),
    "row too large": (stepped(torch.tensor([0, NODES])), ValueError, "rows must lie between 0 and 39, got 40"),
    "negative row": (stepped(torch.tensor([-1, 2])), ValueError, "rows must lie between 0 and 39, got -1"),
    "norm inside": (
        stepped(None, pyg.GIN(8, 6, 2, 3, norm="layer_norm")), ValueError, "cannot push messages through LayerNorm"
    ),
    "two heads": (
        stepped(None, seeded(TwoHeads)), ValueError,
        r"cannot tell the linear head.*head=model.lin\), or keep the rates constant",
    ),
    "gated unit": (stepped(None, pyg.GatedGraphConv(8, 1)), ValueError, r"unit of GatedGraphConv.*rade.NoiseRatio\(\)"),
    "no row": (stepped(torch.zeros(NODES).bool()), ValueError, "labelled must name at least one row"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_a_sentence(case):
    build, kind, sentence = BAD[case]
    with pytest.raises(kind, match=sentence):
        build()


def test_rade_ofs_needs_moments_and_leaves_a_refused_model_as_it_was():
    net = nn.ModuleList([pyg.GCNConv(8, 4), pyg.SAGEConv(4, 4, aggr="max")])
    classes = [type(module) for module in net.modules()]
    with pytest.raises(ValueError, match=r"RADE-OFS adds.*SAGEConv at '1' are unknown.*use RADE-OF, variant='of'"):
        rade.RADE(net, "ofs")
    assert [type(module) for module in net.modules()] == classes


def test_a_rate_step_without_gradients_is_refused_and_leaves_the_model_in_training():
    model = adapting().train()
    model(X, EDGES)
    with pytest.raises(RuntimeError, match=r"call it after loss.backward\(\) and before zero_grad\(\)"):
        model.adapt(X, EDGES)
    assert int(model.rate_state.steps) == 0
    assert model.training


def test_pooling_must_be_named():
    """Graph-level logits from a model wrapped as a node-level one, and the other way round."""
    batch = torch.arange(NODES) // 20
    args = (X, EDGES[:, batch[EDGES[0]] == batch[EDGES[1]]], batch)
    model = adapting(Ends(pyg.global_add_pool))
    training_step(model, *args, labels=torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"expected logits for 40 nodes, got 2 rows; say how.*pool='sum'"):
        model.adapt(*args)
    with pytest.raises(ValueError, match=r"expected logits for 1 graphs, got 40 rows.*pool=None for node-level models"):
        stepped(None, readout=rade.Readout(pool="sum"))()


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
@pytest.mark.parametrize("layer", EVERY)
def test_graphs_at_the_edge(layer, variant, graph):
    """Training, rate steps and inference stay finite."""
    x, edges = AT_THE_EDGE[graph]
    model = adapting(seeded(lambda: Net(EVERY[layer])), variant)
    training_step(model, x, edges, labels=LABELS[: len(x)])
    assert torch.isfinite(model.adapt(x, edges)).all()
    assert torch.isfinite(model.eval()(x, edges)).all()
    assert 0.0 <= model.rates.p < 1.0
    assert 0.0 <= model.rates.q <= 1.0
