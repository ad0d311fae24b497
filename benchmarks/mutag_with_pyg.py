"""MUTAG by PyTorch Geometric alone: the plain GCN of the TU protocol, to check the level of `rade train --method none`.

python benchmarks/mutag_with_pyg.py --lr 0.01 [--data-root DIR]
"""

import argparse
from itertools import pairwise

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool

import rade.data

FOLDS, EPOCHS, WIDTH, LAYERS, BATCH = 10, 350, 32, 4, 16


class Net(nn.Module):
    """Four convolutions, ReLU after each, sum pooling, a linear head."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        widths = [features] + [WIDTH] * LAYERS
        self.convolutions = nn.ModuleList(GCNConv(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = convolution(x, edge_index).relu()
        return self.head(global_add_pool(x, batch))


def curve(graphs: list, train: np.ndarray, test: np.ndarray, lr: float, seed: int) -> list[float]:
    """Accuracy on the held-out fold after every epoch."""
    torch.manual_seed(seed)
    net = Net(graphs[0].x.size(1), 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.5)
    batches = DataLoader([graphs[i] for i in train], BATCH, shuffle=True)
    (held_out,) = DataLoader([graphs[i] for i in test], len(test))
    scores = []
    for _ in range(EPOCHS):
        net.train()
        for batch in batches:
            optimizer.zero_grad()
            cross_entropy(net(batch.x, batch.edge_index, batch.batch), batch.y).backward()
            optimizer.step()
        schedule.step()
        net.eval()
        with torch.no_grad():
            guess = net(held_out.x, held_out.edge_index, held_out.batch).argmax(1)
        scores.append(float((guess == held_out.y).float().mean()))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--data-root")
    arguments = parser.parse_args()
    data = rade.data.load("mutag", root=arguments.data_root)
    graphs = [data.graphs[i] for i in range(len(data.graphs))]
    labels = np.array([int(graph.y) for graph in graphs])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(labels)), labels)
    curves = 100 * np.array([curve(graphs, *fold, arguments.lr, seed) for seed, fold in enumerate(folds)])
    best = int(curves.mean(0).argmax())
    print(f"lr {arguments.lr}: {curves[:, best].mean():.2f} ± {curves[:, best].std(ddof=1):.2f} at epoch {best + 1}")


if __name__ == "__main__":
    main()
