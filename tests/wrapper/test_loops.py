"""Training loops as PyG's examples have them, with `RADE(model).follow(optimizer)` as the only addition.

A loop is a function of `wrap`: the plain loop passes what gives the model back. Loss and score are computed by the
loop itself, so whatever it calls on the model must reach it: `encode`, `decode`, `conv1`, parameters.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, dropout
from torch.nn.utils import clip_grad_norm_
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_add_pool
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling

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


class GIN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList()
        for width in (4, 8):
            layers = [nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8)]
            self.convs.append(GINConv(nn.Sequential(*layers), train_eps=False))
        self.mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.mlp(global_add_pool(x, batch, size=batch_size))


def graph_loop(wrap: Wrap) -> tuple[Any, float]:
    """mutag_gin.py: shuffled batches of graphs, the size of the batch among the arguments."""
    graphs = [
        Data(x=normal(8, 4, seed=k) + k % 2, edge_index=random_edges(8, 12, seed=k), y=torch.tensor([k % 2]))
        for k in range(48)
    ]
    torch.manual_seed(1)
    model = GIN()
    optimizer, loader = torch.optim.Adam(model.parameters(), lr=0.01), DataLoader(graphs[:32], 16, shuffle=True)
    model = wrap(model, optimizer)
    for _ in range(15):
        model.train()
        for data in loader:
            optimizer.zero_grad()
            out = model(data.x, data.edge_index, data.batch, batch_size=data.batch_size)
            cross_entropy(out, data.y).backward()
            optimizer.step()
    model.eval()
    (test,) = DataLoader(graphs[32:], 16)
    hit = model(test.x, test.edge_index, test.batch, batch_size=16).argmax(dim=-1) == test.y
    return model, float(hit.float().mean())


class LinkNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(FEATURES, 16), GCNConv(16, 8)

    def encode(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z: Tensor, edge_label_index: Tensor) -> Tensor:
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
        return self.decode(self.encode(x, edge_index), edge_label_index)


def link_loop(wrap: Wrap) -> tuple[Any, float]:
    """link_pred.py: encode and decode are called apart, negative pairs are drawn anew for every step."""
    torch.manual_seed(1)
    split = RandomLinkSplit(num_val=0.0, num_test=0.2, is_undirected=True, add_negative_train_samples=False)
    data, _, test = split(citations())
    model, losses = LinkNet(), []
    optimizer = torch.optim.Adam(params=model.parameters(), lr=0.01)
    model = wrap(model, optimizer)
    for _ in range(30):
        model.train()
        optimizer.zero_grad()
        z = model.encode(data.x, data.edge_index)
        false = negative_sampling(data.edge_index, NODES, data.edge_label_index.size(1))
        pairs = torch.cat([data.edge_label_index, false], dim=-1)
        truth = torch.cat([data.edge_label, data.edge_label.new_zeros(false.size(1))])
        loss = binary_cross_entropy_with_logits(model.decode(z, pairs).view(-1), truth)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        model.eval()
        out = model.decode(model.encode(test.x, test.edge_index), test.edge_label_index)
    assert out.shape == test.edge_label.shape
    return model, losses[0] - losses[-1]


def wraps(**options: Any) -> Wrap:
    """The one line."""
    return lambda net, optimizer: adapting(net, **options).follow(optimizer)


LOOPS: dict[str, tuple[Callable[[Wrap], tuple[Any, float]], dict[str, Any], float, int]] = {
    "gcn": (node_loop, {}, 0.6, 30),
    "mutag_gin": (graph_loop, {"readout": rade.Readout(pool="sum"), "rule": rade.GradNorm(penalty=0.1)}, 0.7, 30),
    "link_pred": (link_loop, {"rule": rade.Constant(0.2, 0.1)}, 0.0, 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_loop_with_one_line_more(name):
    """It learns as the plain loop does; views are used; rates move where they adapt, once per optimizer step."""
    loop, options, enough, steps = LOOPS[name]
    for wrap in (lambda net, optimizer: net, wraps(**options)):
        torch.manual_seed(0)
        model, score = loop(wrap)
        assert score > enough
    if steps:
        assert (int(model.rate_state.steps), int(model.rate_state.skipped)) == (steps, 0)
        assert model.rates.p != 0.5
    untouched = torch.Generator().manual_seed(0).get_state()
    assert not torch.equal(model._context.generator.get_state(), untouched)  # views were drawn


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
