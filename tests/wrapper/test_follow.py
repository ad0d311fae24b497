"""`follow(optimizer)`: existing loops need no other line; each equals the loop that calls `adapt` by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

import rade
from adapting import adapting
from zoo import LAYERS, Net, normal, random_edges, seeded

NODES = 40
X, EDGES = normal(NODES, 8), random_edges(NODES, 120)
LABELS, TRAIN = torch.arange(NODES) % 3, torch.arange(0, NODES, 2)


def make() -> tuple[rade.RADE, torch.optim.Optimizer]:
    model = adapting(seeded(lambda: Net(LAYERS["GCNConv"])), generator=torch.Generator().manual_seed(0))
    return model.train(), torch.optim.SGD(model.parameters(), lr=0.1)


def loss_of(model: Any) -> torch.Tensor:
    return cross_entropy(model(X, EDGES)[TRAIN], LABELS[TRAIN])


def by_hand(before_step: Callable[[rade.RADE], None] = lambda _: None, passes: int = 1) -> rade.RADE:
    model, optimizer = make()
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(passes):
            (loss_of(model) / passes).backward()
        before_step(model)
        optimizer.step()
        model.adapt(X, EDGES, labelled=TRAIN)
    return model


def assert_same(model: rade.RADE, other: rade.RADE, steps: int = 3) -> None:
    assert int(model.rate_state.steps) == steps
    torch.testing.assert_close(model.rate_state.first, other.rate_state.first, rtol=1e-6, atol=0)
    assert model.rates.p == pytest.approx(other.rates.p, rel=1e-9)


def test_a_plain_loop():
    model, optimizer = make()
    assert model.follow(optimizer) is model
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    assert_same(model, by_hand())


def test_gradients_may_be_accumulated():
    """One rate step per optimizer step, with the accumulated gradient."""
    model, optimizer = make()
    model.follow(optimizer)
    for _ in range(3):
        for _ in range(2):
            (loss_of(model) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert_same(model, by_hand(passes=2))


def test_gradients_may_be_clipped():
    """G_data is then the clipped norm: what the step used."""
    model, optimizer = make()
    model.follow(optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
    assert_same(model, by_hand(lambda m: clip_grad_norm_(m.parameters(), 0.01)))


def test_closures_are_followed_once_per_step():
    """LBFGS calls its closure many times; the rates move once."""
    model, _ = make()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.follow(optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    assert int(model.rate_state.steps) == 2
    assert model.rates.p != 0.5


def test_scaled_losses_are_seen_unscaled():
    """A GradScaler takes its factor off before the step."""
    model, optimizer = make()
    model.follow(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    assert_same(model, by_hand())


def test_a_step_that_the_scaler_skips_moves_no_rates():
    model, optimizer = make()
    model.follow(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss_of(model) * float("inf")).backward()
    scaler.step(optimizer)
    assert int(model.rate_state.steps) == 0


def test_a_step_without_a_training_call_moves_nothing():
    model, optimizer = make()
    model.follow(optimizer)
    model.eval()
    loss_of(model).backward()
    optimizer.step()
    assert int(model.rate_state.steps) == 0


def test_an_optimizer_of_another_model_is_refused():
    model, _ = make()
    other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
    with pytest.raises(ValueError, match="holds no parameter of this model"):
        model.follow(other)
    with pytest.raises(TypeError, match=r"follow takes the optimizer that steps, .* got 'adam'"):
        model.follow("adam")
