"""Any loss: what rate control makes of it, or the sentence by which it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    softplus,
)
from torch_geometric.nn import GCN

import rade
from adapting import adapting
from rade.control.curvature import of_loss
from zoo import normal, random_edges, seeded

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 80)
LABELS, WEIGHT = torch.arange(NODES) % 3, torch.tensor([1.0, 2.0, 5.0])
PAIRS = torch.cat([EDGES, torch.stack([EDGES[0], EDGES[1].roll(7)])], 1)
TRUTH = torch.cat([torch.ones(EDGES.shape[1]), torch.zeros(EDGES.shape[1])])
Loss = Callable[[Tensor], Tensor]


def whole(logits: Tensor, rows: Tensor) -> Tensor:
    """Some rows in their places among all."""
    return logits.new_zeros(NODES, logits.shape[1]).index_copy(0, rows, logits)


def links(z: Tensor) -> Tensor:
    """A dot-product decoder on true and false pairs."""
    return binary_cross_entropy_with_logits((z[PAIRS[0]] * z[PAIRS[1]]).sum(1), TRUTH, reduction="sum")


def ranking(z: Tensor) -> Tensor:
    """The first half above the second, softly."""
    return softplus(z[NODES // 2 :, 0] - z[: NODES // 2, 0]).sum()


def rates_after(loss: Loss, outputs: int = 3, **options: Any) -> list[rade.Rates]:
    """Four steps of a loop that only wraps."""
    net = seeded(lambda: GCN(8, 6, 2, outputs))
    model = adapting(net, generator=torch.Generator().manual_seed(0), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.follow(optimizer)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss(model.train()(X, EDGES)).backward()
        optimizer.step()
        found.append(model.rates)
    return found


ADAPTS: dict[str, tuple[Loss, int, dict[str, Any]]] = {
    "weighted": (lambda z: cross_entropy(z, LABELS, WEIGHT), 3, {}),
    "smoothed": (lambda z: cross_entropy(z, LABELS, label_smoothing=0.1), 3, {}),
    "weighted, said": (
        lambda z: cross_entropy(z, LABELS, WEIGHT),
        3,
        {"readout": rade.Readout(loss=lambda z, rows: cross_entropy(z, LABELS[rows], WEIGHT, reduction="sum"))},
    ),
    "links": (links, 3, {"readout": rade.Readout(loss=lambda z, rows: links(whole(z, rows)))}),
    "links by noise ratio": (
        links,
        3,
        {"readout": rade.Readout(loss=lambda z, rows: links(whole(z, rows))), "rule": rade.NoiseRatio()},
    ),
    "ranking": (ranking, 1, {"readout": rade.Readout(loss=lambda z, rows: ranking(whole(z, rows)))}),
    "regression": (
        lambda z: mse_loss(z, X[:, :1]),
        1,
        {"readout": rade.Readout(task="regression"), "rule": rade.NoiseRatio()},
    ),
}


@pytest.mark.parametrize("name", ADAPTS)
def test_rates_adapt(name):
    loss, outputs, options = ADAPTS[name]
    first, *_, last = rates_after(loss, outputs, **options)
    assert 0 <= last.p < 1
    assert last.p != first.p


CURVED = {  # losses whose curvature GradNorm cannot follow
    "squared": lambda z, rows: mse_loss(z, X[rows, :1], reduction="sum"),
    "absolute": lambda z, rows: l1_loss(z, X[rows, :1], reduction="sum"),
    "huber": lambda z, rows: huber_loss(z, X[rows, :1], reduction="sum"),
}


@pytest.mark.parametrize("name", CURVED)
def test_a_curvature_that_cannot_be_followed_is_refused(name):
    loss = CURVED[name]
    with pytest.raises(ValueError, match=r"curvature of this loss does not depend on the model .*rade.NoiseRatio"):
        rates_after(lambda z: loss(z, torch.arange(NODES)), 1, readout=rade.Readout(loss=loss))


@pytest.mark.parametrize(("loss", "outputs"), [(links, 3), (lambda z: z.square().mean(), 3)])
def test_embeddings_are_not_taken_for_classes(loss, outputs):
    with pytest.warns(UserWarning, match=r"does not treat the model's outputs as class logits .*rule=rade.Constant"):
        rates_after(loss, outputs)


def test_a_score_per_row_is_not_taken_for_classes():
    target = torch.ones(NODES // 2)
    with pytest.raises(ValueError, match="one logit per row has no classes"):
        rates_after(lambda z: margin_ranking_loss(z[: NODES // 2, 0], z[NODES // 2 :, 0], target), 1)


@pytest.mark.parametrize("loss", [links, lambda z: z.square().mean()], ids=["links", "autoencoder"])
def test_constant_rates_work_with_anything(loss):
    assert rates_after(loss, rule=rade.Constant(0.2, 0.1))[-1].p == 0.2


def test_a_loss_that_forgets_its_rows_is_told():
    def loss(z: Tensor, rows: Tensor) -> Tensor:
        return cross_entropy(z, LABELS, reduction="sum")

    with pytest.raises(ValueError, match=r"called with the logits \[20, 3\] of some rows and the ids of these rows"):
        rates_after(lambda z: cross_entropy(z[::2], LABELS[::2]), readout=rade.Readout(loss=loss))


@pytest.mark.parametrize("loss", [links, ranking], ids=["links", "ranking"])
def test_shared_terms_have_the_diagonal_as_their_mean(loss):
    """Against the whole second derivative: 400 draws of signs, five standard errors; one alone has no such mean."""
    z = normal(NODES, 1, dtype=torch.double)
    rows = torch.arange(NODES)
    diagonal = torch.func.hessian(lambda v: loss(v[:, None].float()).double())(z[:, 0]).diagonal()
    found = torch.stack(
        [of_loss(lambda v, _: loss(v.float()), z, rows, torch.Generator().manual_seed(k))[:, 0] for k in range(400)]
    ).detach()
    error = found.std(0) / 400**0.5
    assert bool(((found.mean(0) - diagonal).abs() <= 5 * error + 1e-5).all())
    assert float(diagonal.abs().sum()) > 1  # the row sums of a ranking's second derivative are all 0


def test_signs_do_not_matter_where_rows_are_apart_and_views_go_on():
    z, rows = normal(NODES, 3), torch.arange(NODES)
    generator = torch.Generator().manual_seed(3)
    state = generator.get_state()

    def loss(v: Tensor, at: Tensor) -> Tensor:
        return cross_entropy(v, LABELS[at], reduction="sum")

    found = of_loss(loss, z, rows, generator)
    assert torch.equal(generator.get_state(), state)
    chance = z.softmax(1)
    torch.testing.assert_close(found, chance * (1 - chance))
