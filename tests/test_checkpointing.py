"""Activation checkpointing: what is recomputed meets the view it met first, with a view per layer or one for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

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
    return [x.grad, *(parameter.grad for parameter in model.parameters()), model.controller.first]


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


def test_a_view_is_found_by_layer_and_step():
    """A layer that is used twice meets one view; the steps of a layer have one each."""
    law = rade.Law(rade.Graph.from_edge_index(EDGES, NODES), rade.Rates(0.5, 0.1))
    adjacency, conv = rade.view.draw(law), rade.nn.GCNConv(8, 8)
    first, again, second = (adjacency.for_layer((conv, step)) for step in (0, 0, 1))
    assert first is again
    assert not torch.equal(first.kept, second.kept)


def test_views_without_a_layer_are_refused():
    """A convolution that forgets `send` would otherwise draw a view of nobody."""
    law = rade.Law(rade.Graph.from_edge_index(EDGES, NODES), rade.Rates(0.5, 0.1))
    with pytest.raises(TypeError, match=r"aggregate with self.send\(adjacency, coefficients, messages\)"):
        rade.correction.propagate(rade.view.draw(law), rade.moments.Sum(law.graph, X.dtype), X)
