"""Your own two-layer GCN, wrapped in one line: `RADE(net)`, and `adapt` after the backward pass.

The data are a citation-like block model with few labels, weak words and loud noise: a plain GCN learns its labels by
heart from the noise, which differs from neighbor to neighbor and is what RADE suppresses. The task is made for that:
without the noise, `csbm(nuisance=0)`, plain training is as good.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv

import rade

EPOCHS, SEEDS = 60, 3


class GCN(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, hidden)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        logits: Tensor = self.head(x)
        return logits


def accuracy(model: torch.nn.Module, x: Tensor, edge_index: Tensor, y: Tensor, index: Tensor) -> float:
    """The share of correct predictions among ``index``."""
    model.eval()
    with torch.no_grad():
        return float((model(x, edge_index).argmax(1) == y)[index].float().mean())


def train(seed: int, wrap: bool) -> float:
    """Test accuracy at the best validation epoch."""
    dataset = rade.data.csbm()
    data, split = dataset.graphs[0], dataset.split(run=0)
    x = data.x.to_dense()
    torch.manual_seed(seed)
    net = GCN(dataset.features, 64, dataset.classes)
    model = rade.RADE(net) if wrap else net  # the one line
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    best = (0.0, 0.0)
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        loss = cross_entropy(model(x, data.edge_index)[split.train], data.y[split.train])
        loss.backward()
        optimizer.step()
        if isinstance(model, rade.RADE):
            model.adapt(x, data.edge_index, labelled=split.train)  # and a second one: the rates tune themselves
        best = max(best, tuple(accuracy(model, x, data.edge_index, data.y, part) for part in (split.val, split.test)))
    if isinstance(model, rade.RADE):
        print(f"  seed {seed}: p from 0.5 to {model.rates.p:.3f}, ρ = q/density from 0.5 to {model.controller.rho:.3f}")
    return best[1]


def main() -> None:
    for name, wrap in (("plain GCN", False), ("RADE-OF", True)):
        scores = torch.tensor([train(seed, wrap) for seed in range(SEEDS)])
        print(f"{name}: test accuracy {scores.mean():.1%} ± {scores.std():.1%} over {SEEDS} seeds")


if __name__ == "__main__":
    main()
