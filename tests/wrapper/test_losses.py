"""Any loss in a loop that only wraps: what rate control makes of it, or the sentence by which it refuses or warns."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, margin_ranking_loss, mse_loss, softplus
from torch_geometric.nn import GCN

import rade
from zoo import EDGES, LABELS, NODES, X, adapting, seeded

WEIGHT = torch.tensor([1.0, 2.0, 5.0])
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
    model = adapting(net, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.follow(optimizer)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss(model.train()(X, EDGES)).backward()
        optimizer.step()
        found.append(model.rates)
    return found


LINKS = rade.Readout(loss=lambda z, rows: links(whole(z, rows)))
SAID = rade.Readout(loss=lambda z, rows: cross_entropy(z, LABELS[rows], WEIGHT, reduction="sum"))
SQUARED = rade.Readout(task="regression")
ADAPTS: dict[str, tuple[Loss, int, dict[str, Any]]] = {
    "weighted": (lambda z: cross_entropy(z, LABELS, WEIGHT), 3, {}),
    "smoothed": (lambda z: cross_entropy(z, LABELS, label_smoothing=0.1), 3, {}),
    "weighted, said": (lambda z: cross_entropy(z, LABELS, WEIGHT), 3, {"readout": SAID}),
    "links": (links, 3, {"readout": LINKS}),
    "links by noise ratio": (links, 3, {"readout": LINKS, "rule": rade.NoiseRatio()}),
    "ranking": (ranking, 1, {"readout": rade.Readout(loss=lambda z, rows: ranking(whole(z, rows)))}),
    "regression": (lambda z: mse_loss(z, X[:, :1]), 1, {"readout": SQUARED}),
    "regression by noise ratio": (lambda z: mse_loss(z, X[:, :1]), 1, {"readout": SQUARED, "rule": rade.NoiseRatio()}),
}


@pytest.mark.parametrize("name", ADAPTS)
def test_rates_adapt(name):
    loss, outputs, options = ADAPTS[name]
    first, *_, last = rates_after(loss, outputs, **options)
    assert 0 <= last.p < 1
    assert last.p != first.p


@pytest.mark.parametrize(("scale", "rises"), [(1e3, True), (1e-9, False)])
def test_rates_of_a_regression_follow_the_size_of_the_data_gradient(scale, rises):
    """A steep loss affords more noise, a flat one less: G_reg is balanced with G_data, and p does not run away."""
    rule = rade.GradNorm(p=0.4, lr=0.05)
    found = rates_after(lambda z: scale * mse_loss(z, X[:, :3]), readout=SQUARED, rule=rule)
    assert (found[-1].p > 0.4) is rises


@pytest.mark.parametrize("loss", [links, lambda z: z.square().mean()], ids=["links", "autoencoder"])
def test_embeddings_taken_for_classes_are_warned_of_and_work_with_constant_rates(loss):
    with pytest.warns(UserWarning, match=r"does not treat the model's outputs as class logits .*rule=rade.Constant"):
        rates_after(loss)
    assert rates_after(loss, rule=rade.Constant(0.2, 0.1))[-1].p == 0.2


def test_a_score_per_row_is_not_taken_for_classes():
    target = torch.ones(NODES // 2)
    with pytest.raises(ValueError, match="one logit per row has no classes"):
        rates_after(lambda z: margin_ranking_loss(z[: NODES // 2, 0], z[NODES // 2 :, 0], target), 1)
