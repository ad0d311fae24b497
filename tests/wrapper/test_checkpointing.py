"""Activation checkpointing: what is recomputed meets the view it met first, with a view per layer or one for all."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv, RGCNConv, SAGEConv

import rade
from zoo import EDGES, EVERY, LABELS, Net, X, adapting, seeded, wrapped


class Layers(Net):
    """Recomputes every layer in the backward pass, or not; logits of a batch come under a name."""

    def __init__(self, again: bool, build: Any, reentrant: bool = False) -> None:
        super().__init__(build)
        self.again, self.reentrant = again, reentrant

    def forward(self, x: Tensor, edge_index: Any, *kinds: Tensor, batch: Tensor | None = None) -> Any:
        for conv in self.convs:
            step = lambda h, conv=conv: conv(h, edge_index, *kinds).relu()  # noqa: E731
            x = checkpoint(step, x, use_reentrant=self.reentrant) if self.again else step(x)
        return self.head(x) if batch is None else {"logits": self.head(x)}


def gradients(again: bool, layer: str, **options: Any) -> list[Tensor]:
    model = adapting(seeded(lambda: Layers(again, EVERY[layer])), **options)
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
    plain, again = (gradients(again, layer, **CASES[case]) for again in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(plain, again))


def tied() -> Layers:
    """One layer, called three times."""
    net = Layers(True, GCNConv)
    net.convs, net.head = torch.nn.ModuleList([GCNConv(8, 8)] * 3), torch.nn.Linear(8, 3)
    return net


def test_a_layer_that_is_called_again_cannot_be_recomputed():
    model = rade.RADE(tied()).train()
    with pytest.raises(RuntimeError, match="GCNConv was called 3 times in one pass"):
        model(X.clone().requires_grad_(), EDGES).sum().backward()
    shared = rade.RADE(tied(), views=rade.Views(shared=True)).train()
    shared(X.clone().requires_grad_(), EDGES).sum().backward()
    assert shared.wrapped.convs[0].lin.weight.grad.isfinite().all()


GRAPH, KINDS = torch.arange(len(X)) // 4, EDGES.sum(0) % 3
APART = EDGES[:, GRAPH[EDGES[0]] == GRAPH[EDGES[1]]]


def two_calls(model: Any, x: Tensor) -> Tensor:
    """Both before one backward pass: each recomputes its layers on the views that it met."""
    one, other = model(x, EDGES), model(2 * x, EDGES)
    return cross_entropy(one, LABELS) + 3 * cross_entropy(other, LABELS)


def a_call_between(model: Any, x: Tensor) -> Tensor:
    """Layers of a batch are computed again on the views of their own pass, not of the latest."""
    logits, _ = (model(scale * x, APART, batch=GRAPH)["logits"] for scale in (1, 2))
    return cross_entropy(logits, LABELS)


def relations(model: Any, x: Tensor) -> Tensor:
    """Those of a layer are one call."""
    return cross_entropy(model(x, EDGES, KINDS), LABELS)


@pytest.mark.parametrize(
    ("build", "loss"),
    [
        (partial(SAGEConv, aggr="mean"), two_calls),
        (partial(SAGEConv, aggr="max"), two_calls),
        (GCNConv, a_call_between),
        (partial(RGCNConv, num_relations=3), relations),
    ],
)
def test_layers_meet_the_views_of_their_call(build, loss):
    found = []
    for again in (False, True):
        model, x = wrapped(seeded(lambda again=again: Layers(again, build))).train(), X.clone().requires_grad_()
        loss(model, x).backward()
        found.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_the_whole_model_may_be_computed_again():
    found = []
    for call in (lambda model, *args: model(*args), partial(checkpoint, use_reentrant=False)):
        model = wrapped(seeded(lambda: Net(EVERY["GCNConv"]))).train()
        cross_entropy(call(model, X, EDGES), LABELS).backward()
        found.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*found)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_reentrant_checkpoints_are_for_rates_that_need_no_gradient_of_the_variance():
    """What is in them has none: the rates would follow the other parameters alone."""
    x = X.clone().requires_grad_()
    with pytest.raises(ValueError, match=r"with use_reentrant=True: pass use_reentrant=False .*rule=rade.NoiseRatio"):
        adapting(Layers(True, GCNConv, reentrant=True)).train()(x, EDGES)
    model = adapting(Layers(True, GCNConv, reentrant=True), rule=rade.NoiseRatio()).train()
    cross_entropy(model(x, EDGES), LABELS).backward()
    model.adapt()
    assert model.rates.p != 0.5
