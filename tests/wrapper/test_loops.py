"""Training loops with one line more: `RADE(model).follow(optimizer)`; `tests/test_models.py` loops over many models."""

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import rade
from zoo import EDGES, LABELS, X, adapting


def loss_of(model: Any) -> Tensor:
    return cross_entropy(model(X, EDGES)[:20], LABELS[:20])


def plain(model: Any, optimizer: Any) -> None:
    loss_of(model).backward()
    optimizer.step()


def accumulated(model: Any, optimizer: Any) -> None:
    for _ in range(2):
        (loss_of(model) / 2).backward()
    optimizer.step()


def clipped(model: Any, optimizer: Any) -> None:
    """G_data is then the clipped norm: what the step used."""
    loss_of(model).backward()
    clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()


def scaled(model: Any, optimizer: Any) -> None:
    """A GradScaler takes its factor off before the step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)


@pytest.mark.parametrize("step", [plain, accumulated, clipped, scaled])
def test_following_is_adapting_by_hand_after_every_step(step):
    found = []
    for by_hand in (False, True):
        model = adapting().train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert by_hand or model.follow(optimizer) is model
        for _ in range(3):
            optimizer.zero_grad()
            (plain if by_hand and step is scaled else step)(model, optimizer)
            if by_hand:
                model.adapt(X, EDGES, labelled=torch.arange(20))
        assert int(model.rate_state.steps) == 3
        found.append(torch.stack([*model.rate_state.first, model.rate_state.p]))
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_rates_move_once_for_a_step_with_a_closure_and_not_at_all_without_a_gradient():
    """LBFGS calls its closure many times; a scaler may skip a step; an evaluation leaves nothing to adapt by."""
    model = adapting().train()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model.follow(optimizer)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert int(model.rate_state.steps) == 1
    model = adapting().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.follow(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss_of(model) * float("inf")).backward()
    scaler.step(optimizer)
    model._latest = None
    loss_of(model.eval()).backward()
    optimizer.step()
    assert int(model.rate_state.steps) == 0


def test_lightning_follows_the_optimizer():
    """The real trainer, two epochs of two batches: one rate step per optimizer step; the rates are in the state."""
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = adapting()

        def training_step(self, batch: Data, _: int) -> Tensor:
            return cross_entropy(self.model(batch.x, batch.edge_index), batch.y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            self.model.follow(optimizer)
            return optimizer

    module, other = Module(), Module()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", gradient_clip_val=1.0, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of lightning advise on numbers of workers
        trainer.fit(module, DataLoader([Data(x=X, edge_index=EDGES, y=LABELS)] * 2, 1))
    assert int(module.model.rate_state.steps) == 4
    other.load_state_dict(module.state_dict())
    assert other.model.rates == module.model.rates != rade.Rates(0.5, module.model.rates.q)
