"""Activation checkpointing: what is recomputed meets the view it met first, with a view per layer or one for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, TransformerConv

import rade
import rade.correction
from adapting import adapting
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded

NODES = 60
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS = torch.arange(NODES) % 3
EVERY = {**LAYERS, **ATTENTION}


class Checkpointed(Net):
    """Recomputes every layer in the backward pass."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for conv in self.convs:
            x = checkpoint(lambda h, conv=conv: conv(h, edge_index).relu(), x, use_reentrant=False)
        return self.head(x)


def gradients(kind: type[Net], layer: str, **options: Any) -> list[Tensor]:
    model = adapting(seeded(lambda: kind(EVERY[layer])), generator=torch.Generator().manual_seed(0), **options)
    x = X.clone().requires_grad_()
    cross_entropy(model.train()(x, EDGES), LABELS).backward()
    model.adapt(x.detach(), EDGES)
    return [x.grad, *(parameter.grad for parameter in model.parameters()), model.rate_state.first]


FIXED = rade.Views(sampling="fixed")
CASES = {
    "per layer": {},
    "shared": {"views": rade.Views(shared=True)},
    # The trap: as many additions in every view, so that shapes agree although another view is drawn.
    "fixed numbers, no drops": {"views": FIXED, "rule": rade.GradNorm(p=0.0)},
    "RADE-OFS": {"variant": "ofs"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("layer", ["GCNConv", "GINConv", "SGConv", "GATConv-heads"])
def test_gradients_are_those_without_checkpoints(layer, case):
    plain, again = (gradients(kind, layer, **CASES[case]) for kind in (Net, Checkpointed))
    assert all(torch.equal(one, other) for one, other in zip(plain, again))


LARGE = 600  # more pairs than are listed: GATv2Conv then looks at a sample of non-neighbors


@pytest.mark.parametrize(
    ("layer", "nodes", "options"),
    [
        (GATv2Conv, LARGE, {}),
        (TransformerConv, LARGE, {"variant": "ofs"}),
        (GATConv, NODES, {"variant": "ofs", "correction": rade.Correction(complement="sampled", samples=8)}),
        (GATConv, NODES, {"variant": "ofs", "correction": rade.Correction(moments="monte-carlo", samples=16)}),
    ],
    ids=["columns", "columns, RADE-OFS", "sampled", "monte-carlo"],
)
def test_estimates_are_drawn_once_for_a_view_and_once_for_evaluation(layer, nodes, options):
    x, edges = normal(nodes, 8), random_edges(nodes, 2 * nodes)

    def model(kind: type[Net]) -> rade.RADE:
        net, generator = seeded(lambda: kind(layer)), torch.Generator().manual_seed(0)
        return rade.RADE(net, rule=rade.Constant(0.3, 1.0), generator=generator, **options)

    plain, again = model(Net), model(Checkpointed)
    for one in (plain, again):
        one.train()(x, edges).square().sum().backward()
    for one, other in zip(plain.parameters(), again.parameters()):
        assert torch.equal(one.grad, other.grad)
    before = plain._context.generator.get_state()
    with torch.no_grad():
        assert torch.equal(plain.eval()(x, edges), plain(x, edges))
        assert torch.equal(plain(x, edges), again.eval()(x, edges))
    plain.explain(x, edges)
    assert torch.equal(plain._context.generator.get_state(), before)


def test_a_view_is_found_by_layer_and_step():
    """Within a call the steps of a layer have one each, and every call has its own."""
    law = rade.Law(rade.Graph.from_edge_index(EDGES, NODES), rade.Rates(0.5, 0.1))
    adjacency, conv = rade.view.draw(law), rade.nn.GCNConv(8, 8)
    first, again, second = (adjacency.for_layer((conv, step)) for step in (0, 0, 1))
    assert first is again
    assert not torch.equal(first.kept, second.kept)
    adjacency.enter(conv)
    assert adjacency.for_layer((conv, 0)) is first
    adjacency.enter(conv)
    assert adjacency.for_layer((conv, 0)) is not first


def test_views_without_a_layer_are_refused():
    """A convolution that forgets `send` would otherwise draw a view of nobody."""
    law = rade.Law(rade.Graph.from_edge_index(EDGES, NODES), rade.Rates(0.5, 0.1))
    with pytest.raises(TypeError, match=r"aggregate with self.send\(adjacency, coefficients, messages\)"):
        rade.correction.propagate(rade.view.draw(law), rade.moments.Sum(law.graph, X.dtype), X)


class Tied(torch.nn.Module):
    """One layer, called three times, with or without checkpoints."""

    def __init__(self, checkpoints: bool = False) -> None:
        super().__init__()
        self.conv, self.checkpoints = GCNConv(8, 8, bias=False), checkpoints

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for _ in range(3):
            x = (
                checkpoint(self.conv, x, edge_index, use_reentrant=False)
                if self.checkpoints
                else self.conv(x, edge_index)
            )
        return x


def test_a_layer_that_is_called_again_meets_another_view():
    """A linear model's mean over views is its inference: 2,000 views within 5 standard errors.

    480 entries: below 3e-4 false alarms at a fresh seed. A shared view is 52 standard errors off.
    """
    model = rade.RADE(seeded(Tied), rule=rade.Constant(0.5, 0.5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        drawn = torch.stack([model.train()(X, EDGES) for _ in range(2000)]).double()
        away = (drawn.mean(0) - model.eval()(X, EDGES)) / (drawn.std(0) / 2000**0.5)
    assert float(away.abs().max()) < 5


def test_a_layer_that_is_called_again_cannot_be_recomputed():
    model = rade.RADE(Tied(checkpoints=True)).train()
    with pytest.raises(RuntimeError, match="GCNConv was called 3 times in one pass"):
        model(X.clone().requires_grad_(), EDGES).sum().backward()
    shared = rade.RADE(Tied(checkpoints=True), views=rade.Views(shared=True)).train()
    shared(X.clone().requires_grad_(), EDGES).sum().backward()
    assert shared.wrapped.conv.lin.weight.grad.isfinite().all()
