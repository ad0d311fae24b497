"""Training loops with one line more: `RADE(model).follow(optimizer)`; `tests/test_models.py` loops over many models."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch.nn.utils import clip_grad_norm_
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv

import rade
from zoo import CLASSES, EDGES, LABELS, X, adapting, normal, random_edges

NODES, FEATURES = 60, 12
Wrap = Callable[[nn.Module, torch.optim.Optimizer], Any]


def citations() -> Data:
    """Mostly edges within a class."""
    y = torch.arange(NODES) % CLASSES
    edges = random_edges(NODES, 300)
    edges = edges[:, (y[edges[0]] == y[edges[1]]) | (edges.sum(0) % 8 == 0)]
    x = torch.nn.functional.one_hot(y, FEATURES).float() + 0.3 * normal(NODES, FEATURES)
    data = Data(x=x, edge_index=edges, y=y)
    for k, part in enumerate(("train_mask", "val_mask", "test_mask")):
        data[part] = torch.arange(NODES) // 3 % 3 == k
    return data


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(FEATURES, 16), GCNConv(16, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = dropout(x, p=0.5, training=self.training)
        x = dropout(self.conv1(x, edge_index, edge_weight).relu(), p=0.5, training=self.training)
        return self.conv2(x, edge_index, edge_weight)


def node_loop(wrap: Wrap) -> tuple[Any, float]:
    """gcn.py: full batch, weight decay for the first layer only, accuracies at every epoch."""
    data, model = citations(), GCN()
    groups = [{"params": model.conv1.parameters(), "weight_decay": 5e-4}, {"params": model.conv2.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.05)
    model, best, chosen = wrap(model, optimizer), 0.0, 0.0
    for _ in range(30):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
        with torch.no_grad():
            model.eval()
            hit = model(data.x, data.edge_index).argmax(dim=-1) == data.y
        val, score = (float(hit[mask].float().mean()) for mask in (data.val_mask, data.test_mask))
        best, chosen = (val, score) if val > best else (best, chosen)
    return model, chosen


def test_the_loop_with_one_line_more():
    """It learns as the plain loop does; views are drawn; rates move once per optimizer step."""
    for wrap in (lambda net, optimizer: net, lambda net, optimizer: adapting(net).follow(optimizer)):
        torch.manual_seed(0)
        model, score = node_loop(wrap)
        assert score > 0.6
    assert (int(model.rate_state.steps), int(model.rate_state.skipped)) == (30, 0)
    assert model.rates.p != 0.5


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


def test_an_optimizer_of_another_model_is_refused():
    with pytest.raises(ValueError, match="holds no parameter of this model"):
        adapting().follow(torch.optim.Adam(nn.Linear(2, 2).parameters()))
    with pytest.raises(TypeError, match=r"follow takes the optimizer that steps, .* got 'adam'"):
        adapting().follow("adam")


def test_lightning_follows_the_optimizer():
    """The real trainer, two epochs of two batches: one rate step per optimizer step; the rates are in the state."""
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = adapting(GCN())

        def training_step(self, batch: Data, _: int) -> Tensor:
            return cross_entropy(self.model(batch.x, batch.edge_index, None), batch.y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            self.model.follow(optimizer)
            return optimizer

    module, other = Module(), Module()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", gradient_clip_val=1.0, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of lightning advise on numbers of workers
        trainer.fit(module, DataLoader([citations(), citations()], 1))
    assert int(module.model.rate_state.steps) == 4
    other.load_state_dict(module.state_dict())
    assert other.model.rates == module.model.rates != rade.Rates(0.5, module.model.rates.q)
