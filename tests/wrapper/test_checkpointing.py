"""Activation checkpointing: what is recomputed meets the view it met first, with a view per layer or one for all."""

from __future__ import annotations

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


class Checkpointed(Net):
    """Recomputes every layer in the backward pass."""

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for conv in self.convs:
            x = checkpoint(lambda h, conv=conv: conv(h, edge_index).relu(), x, use_reentrant=False)
        return self.head(x)


def gradients(kind: type[Net], layer: str, **options: Any) -> list[Tensor]:
    model = adapting(seeded(lambda: kind(EVERY[layer])), **options)
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


class Tied(torch.nn.Module):
    """One layer, called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(8, 8, bias=False)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for _ in range(3):
            x = checkpoint(self.conv, x, edge_index, use_reentrant=False)
        return x


def test_a_layer_that_is_called_again_cannot_be_recomputed():
    model = rade.RADE(Tied()).train()
    with pytest.raises(RuntimeError, match="GCNConv was called 3 times in one pass"):
        model(X.clone().requires_grad_(), EDGES).sum().backward()
    shared = rade.RADE(Tied(), views=rade.Views(shared=True)).train()
    shared(X.clone().requires_grad_(), EDGES).sum().backward()
    assert shared.wrapped.conv.lin.weight.grad.isfinite().all()


@pytest.mark.parametrize("aggr", ["mean", "max"], ids=["moments", "pairs"])
def test_two_forward_calls_before_one_backward(aggr):
    """The loss of two calls: each recomputes its layers on the views that it met."""
    found = []
    for kind in (Net, Checkpointed):
        model = wrapped(seeded(lambda kind=kind: kind(partial(SAGEConv, aggr=aggr)))).train()
        one, other = model(X, EDGES), model(2 * X, EDGES)
        (cross_entropy(one, LABELS) + 3 * cross_entropy(other, LABELS)).backward()
        found.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*found)


class Named(Net):
    """Its logits come under a name; graphs of a batch stay apart."""

    def forward(self, x: Tensor, edge_index: Any, batch: Tensor) -> dict[str, Tensor]:
        return {"logits": super().forward(x, edge_index)}


class NamedCheckpointed(Named, Checkpointed):
    pass


def test_a_call_between_and_logits_under_a_name():
    """Layers of a batch are computed again on the views of their own pass, not of the latest."""
    graph, found = torch.arange(len(X)) // 4, []
    edges = EDGES[:, graph[EDGES[0]] == graph[EDGES[1]]]
    for kind in (Named, NamedCheckpointed):
        model = wrapped(seeded(lambda kind=kind: kind(EVERY["GCNConv"]))).train()
        loss = cross_entropy(model(X, edges, graph)["logits"], LABELS)
        model(2 * X, edges, graph)
        loss.backward()
        found.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*found)


def test_the_whole_model_may_be_computed_again():
    found = []
    for call in (lambda model, *args: model(*args), partial(checkpoint, use_reentrant=False)):
        model = wrapped(seeded(lambda: Net(EVERY["GCNConv"]))).train()
        cross_entropy(call(model, X, EDGES), LABELS).backward()
        found.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*found)


class Related(torch.nn.Module):
    """A layer over several relations, recomputed or not."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.conv, self.again = RGCNConv(8, 3, 3), again

    def forward(self, x: Tensor, edge_index: Tensor, kinds: Tensor) -> Tensor:
        args = (x, edge_index, kinds)
        return checkpoint(self.conv, *args, use_reentrant=False) if self.again else self.conv(*args)


def test_the_relations_of_a_layer_are_one_call():
    found = []
    for again in (False, True):
        model, x = wrapped(seeded(lambda again=again: Related(again))).train(), X.clone().requires_grad_()
        model(x, EDGES, EDGES.sum(0) % 3).square().sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)
