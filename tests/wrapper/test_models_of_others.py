"""Other people's models, wrapped without edits: train, adapt, evaluate, and predict what they predicted before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GATConv,
    GCNConv,
    GraphConv,
    GraphSAGE,
    JumpingKnowledge,
    SAGEConv,
    Sequential,
)

from adapting import adapting
from rade.nn.trace import Trace, evaluating, following, head_matrix
from zoo import normal, random_edges, seeded

NODES, FEATURES, CLASSES = 40, 8, 3
X, EDGES = normal(NODES, FEATURES), random_edges(NODES, 80)
LABELS = torch.arange(NODES) % CLASSES
JUMPS = [None, "last", "cat", "max", "lstm"]


def run(
    net: torch.nn.Module, *args: Any, rows: int = NODES, labels: Tensor = LABELS, options: Any = None, **kwargs: Any
) -> Any:
    """Two training steps with a rate step each, evaluation before and after: shapes, gradients, rates, equal logits."""
    plain = copy.deepcopy(net).eval()
    model = adapting(net, **(options or {}))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*args, **kwargs), plain(*args, **kwargs), rtol=1e-4, atol=1e-5)
    rates = model.rates
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model.train()(*args, **kwargs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clean = model.adapt(*args, **kwargs)
        assert clean.shape == (rows, CLASSES)
        assert not clean.requires_grad
        assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)
    assert model.rates.p != rates.p
    assert int(model.rate_state.skipped) == 0
    plain.load_state_dict(net.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*args, **kwargs), plain(*args, **kwargs), rtol=1e-4, atol=1e-5)
    return model


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("kind", [GCN, GraphSAGE, GIN, GAT])
def test_models_of_pyg_with_every_jumping_knowledge(kind, jump):
    run(seeded(lambda: kind(FEATURES, 6, 3, CLASSES, dropout=0.3, jk=jump)), X, EDGES)


@pytest.mark.parametrize("jump", [None, "cat", "max"])
@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm"])
@pytest.mark.parametrize("kind", [GCN, GraphSAGE, GIN, GAT])
def test_models_of_pyg_with_norms(kind, norm, jump):
    net = seeded(lambda: kind(FEATURES, 6, 2, CLASSES, norm=norm, act_first=True, jk=jump))
    if kind is GIN and norm == "layer_norm":  # inside the convolution, where rate control must pass through it
        with pytest.raises(ValueError, match="cannot push messages through LayerNorm"):
            run(net, X, EDGES)
    else:
        run(net, X, EDGES)


def test_models_of_pyg_with_their_own_options():
    """Several heads, trained ε, sums, a projection, one layer."""
    for build in (
        lambda: GAT(FEATURES, 8, 2, CLASSES, heads=4),
        lambda: GAT(FEATURES, 8, 2, CLASSES, heads=2, concat=False, add_self_loops=False),
        lambda: GIN(FEATURES, 6, 2, CLASSES, train_eps=True),
        lambda: GraphSAGE(FEATURES, 6, 2, CLASSES, aggr="sum", project=True),
        lambda: GCN(FEATURES, 6, 1, CLASSES),
        lambda: GCN(FEATURES, 6, 2, CLASSES, bias=False),
    ):
        run(seeded(build), X, EDGES)


def test_sequential_of_pyg():
    def build() -> Any:
        layers = [
            (GCNConv(FEATURES, 6), "x, edge_index -> h1"),
            torch.nn.ReLU(inplace=True),
            (GCNConv(6, 6), "h1, edge_index -> h2"),
            (lambda h1, h2: [h1, h2], "h1, h2 -> hs"),
            (JumpingKnowledge("cat", 6, 2), "hs -> h"),
            torch.nn.Linear(12, CLASSES),
        ]
        return Sequential("x, edge_index", layers)

    run(seeded(build), X, EDGES)


class Inductive(torch.nn.Module):
    """PyG's ppi.py: attention beside a linear skip at every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.lin1 = GATConv(FEATURES, 4, heads=2), torch.nn.Linear(FEATURES, 8)
        self.conv2, self.lin2 = GATConv(8, CLASSES, heads=3, concat=False), torch.nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = elu(self.conv1(x, edge_index) + self.lin1(x))
        return self.conv2(x, edge_index) + self.lin2(x)


class Residual(torch.nn.Module):
    """Hand-written: lists of layers, skips of equal width on either side of the convolution, norms, a head."""

    def __init__(self, width: int = FEATURES, layers: int = 3) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(width, width) for _ in range(layers)])
        self.skips = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(layers)])
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(width) for _ in range(layers)])
        self.predict = torch.nn.Linear(width, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv, skip, norm in zip(self.convs, self.skips, self.norms):
            x = x + norm(conv(x, edge_index) + skip(x)).relu()
        return self.predict(x)


class Shared(torch.nn.Module):
    """One convolution applied twice, in a ModuleDict."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict({"in": torch.nn.Linear(FEATURES, 6), "conv": GraphConv(6, 6)})
        self.layers["out"] = torch.nn.Linear(6, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.layers["in"](x)
        for _ in range(2):
            x = self.layers["conv"](x, edge_index).tanh()
        return self.layers["out"](x)


@pytest.mark.parametrize("kind", [Inductive, Residual, Shared])
def test_hand_written_models(kind):
    run(seeded(kind), X, EDGES)


def test_skip_connections_do_not_enter_the_head():
    """The head of the last convolution is predict · batch norm, although the skip's linear layer comes in between."""
    net = seeded(Residual)
    net.norms[-1].running_var.uniform_(0.5, 2.0)
    model = run(net, X, EDGES)
    trace = Trace()
    with evaluating(net), model._context.using(trace, mode="clean"), following(net, trace):
        net(X, EDGES)
    found = head_matrix(net, trace, CLASSES, None)
    norm = net.norms[-1]
    expected = net.predict.weight * (norm.weight / (norm.running_var + norm.eps).sqrt())
    torch.testing.assert_close(found, expected.detach())


class AnyOrder(torch.nn.Module):
    """The graph first, under another name, with options that a caller may or may not give."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(FEATURES, 6)
        self.lin = torch.nn.Linear(6, CLASSES)

    def forward(self, links: Tensor, x: Tensor, scale: float = 1.0, *, shift: Tensor | None = None) -> Tensor:
        x = x * scale if shift is None else x * scale + shift
        return self.lin(self.conv(x, links).relu())


def test_arguments_in_any_order_and_by_keyword():
    run(seeded(AnyOrder), EDGES, X)
    run(seeded(AnyOrder), x=X, links=EDGES, scale=0.5)
    run(seeded(AnyOrder), EDGES, x=X, shift=normal(NODES, FEATURES, seed=3))
    run(seeded(lambda: GCN(FEATURES, 6, 2, CLASSES)), edge_index=EDGES, x=X)


def test_frozen_layers_and_parameters():
    """Only the head learns: rates adapt by its gradients alone."""
    net = seeded(lambda: GCN(FEATURES, 6, 2, CLASSES, jk="last"))
    net.convs.requires_grad_(False)
    run(net, X, EDGES)
