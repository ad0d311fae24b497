"""A plain GCN and how it is fitted."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv, global_add_pool


class GCN(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int, layers: int) -> None:
        super().__init__()
        widths = [features] + [hidden] * layers
        self.convolutions = nn.ModuleList(GCNConv(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        for convolution in self.convolutions:
            x = convolution(x, edge_index).relu()
        return self.head(x if batch is None else global_add_pool(x, batch))


def fit(model: nn.Module, inputs: tuple, y: Tensor, train: Tensor, epochs: int, lr: float = 0.01) -> Tensor:
    """Adam without any regularisation; the final logits."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        optimizer.zero_grad()
        functional.cross_entropy(model(*inputs)[train], y[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return model(*inputs)


def accuracy(logits: Tensor, y: Tensor, index: Tensor) -> float:
    return float((logits[index].argmax(dim=1) == y[index]).float().mean())
