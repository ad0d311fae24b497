"""Training loops as PyG's examples have them, in our own words, with the wrapping line as the only addition.

A loop is a function of `wrap`: the plain loop passes what gives the model back. Loss and score are computed by the
loop itself, so whatever it calls on the model must reach it: `encode`, `decode`, `recon_loss`, `conv1`, parameters.
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
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, global_add_pool
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling

import rade
from adapting import adapting
from zoo import normal, random_edges

NODES, FEATURES, CLASSES = 60, 12, 3
Wrap = Callable[[nn.Module, torch.optim.Optimizer], Any]


def plain(net: nn.Module, optimizer: torch.optim.Optimizer) -> nn.Module:
    return net


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


def node_loop(build: Callable[[], nn.Module], wrap: Wrap) -> tuple[Any, float]:
    """gcn.py and gat.py: full batch, weight decay for the first layer only, accuracies at every epoch."""
    data, model = citations(), build()
    groups = [{"params": model.conv1.parameters(), "weight_decay": 5e-4}, {"params": model.conv2.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.05)
    model = wrap(model, optimizer)

    def train() -> float:
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        loss = cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def test() -> list[float]:
        model.eval()
        hit = model(data.x, data.edge_index).argmax(dim=-1) == data.y
        return [float(hit[mask].float().mean()) for mask in (data.train_mask, data.val_mask, data.test_mask)]

    best, chosen = 0.0, 0.0
    for _ in range(30):
        assert train() < 50
        _, val, score = test()
        if val > best:
            best, chosen = val, score
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
    train_loader, test_loader = DataLoader(graphs[:32], 16, shuffle=True), DataLoader(graphs[32:], 16)
    model = GIN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model = wrap(model, optimizer)

    def train() -> float:
        model.train()
        total = 0.0
        for data in train_loader:
            optimizer.zero_grad()
            out = model(data.x, data.edge_index, data.batch, batch_size=data.batch_size)
            loss = cross_entropy(out, data.y)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * data.num_graphs
        return total / 32

    @torch.no_grad()
    def test() -> float:
        model.eval()
        hits = 0
        for data in test_loader:
            out = model(data.x, data.edge_index, data.batch, batch_size=data.batch_size)
            hits += int((out.argmax(dim=-1) == data.y).sum())
        return hits / 16

    for _ in range(12):
        train()
    return model, test()


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
    train_data, _, test_data = split(citations())
    model = LinkNet()
    optimizer = torch.optim.Adam(params=model.parameters(), lr=0.01)
    model = wrap(model, optimizer)

    def train() -> float:
        model.train()
        optimizer.zero_grad()
        z = model.encode(train_data.x, train_data.edge_index)
        false = negative_sampling(train_data.edge_index, NODES, train_data.edge_label_index.size(1))
        pairs = torch.cat([train_data.edge_label_index, false], dim=-1)
        truth = torch.cat([train_data.edge_label, train_data.edge_label.new_zeros(false.size(1))])
        loss = binary_cross_entropy_with_logits(model.decode(z, pairs).view(-1), truth)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    losses = [train() for _ in range(30)]
    with torch.no_grad():
        model.eval()
        z = model.encode(test_data.x, test_data.edge_index)
        out = model.decode(z, test_data.edge_label_index).view(-1).sigmoid()
    assert out.shape == test_data.edge_label.shape
    return model, losses[0] - losses[-1]


def wraps(**options: Any) -> Wrap:
    """The one line."""
    return lambda net, optimizer: adapting(net, **options).follow(optimizer)


KEEPS = {"rule": rade.Constant(0.2, 0.1)}
LOOPS: dict[str, tuple[Callable[[Wrap], tuple[Any, float]], dict[str, Any], float]] = {
    "gcn": (lambda wrap: node_loop(GCN, wrap), {}, 0.6),
    "mutag_gin": (graph_loop, {"readout": rade.Readout(pool="sum"), "rule": rade.GradNorm(penalty=0.1)}, 0.7),
    "link_pred": (link_loop, KEEPS, 0.0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_loop_with_one_line_more(name):
    """It learns as the plain loop does; views are used; rates move where they adapt, once per optimizer step."""
    loop, options, enough = LOOPS[name]
    torch.manual_seed(0)
    _, without = loop(plain)
    assert without > enough
    torch.manual_seed(0)
    model, score = loop(wraps(**options, generator=torch.Generator().manual_seed(0)))
    assert score > enough
    if model.rade.rule.adapts:
        assert int(model.rate_state.steps) == {"mutag_gin": 24}.get(name, 30)
        assert model.rates.p != 0.5
        assert int(model.rate_state.skipped) == 0
    untouched = torch.Generator().manual_seed(0).get_state()
    assert not torch.equal(model._context.generator.get_state(), untouched)  # views were drawn


def test_a_loop_over_pairs_is_told_to_keep_its_rates():
    """Embeddings are no class scores: the sentence comes at the first step."""
    with pytest.warns(UserWarning, match=r"does not treat the model's outputs as class logits.*rule=rade.Constant\(\)"):
        link_loop(wraps())


def test_lightning_follows_the_optimizer():
    """The real trainer, two epochs of two batches: one rate step per optimizer step; the rates are in the state."""
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = adapting(GCN(), generator=torch.Generator().manual_seed(0))

        def training_step(self, batch: Data, _: int) -> Tensor:
            return cross_entropy(self.model(batch.x, batch.edge_index, None), batch.y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            self.model.follow(optimizer)
            return optimizer

    torch.manual_seed(0)
    module = Module()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", gradient_clip_val=1.0, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of lightning advise on numbers of workers
        trainer.fit(module, DataLoader([citations(), citations()], 1))
    assert int(module.model.rate_state.steps) == 4
    assert module.model.rates.p != 0.5
    other = Module()
    other.load_state_dict(module.state_dict())
    assert other.model.rates == module.model.rates
