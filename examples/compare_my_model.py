"""Does it help *my* model on *my* data? `rade.compare` trains it with and without, on the same seeds and splits.

The data are a stochastic block model with three splits, the model a GCN with dropout. What comes out is a table with
paired differences and a sentence for each method, which says so if no difference can be told, and how many seeds that
would take. Nothing is promised for your data, or for these.
"""

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.transforms import RandomNodeSplit
from torch_geometric.utils import stochastic_blockmodel_graph

import rade

CLASSES, PER_CLASS, FEATURES, NOISE = 3, 60, 16, 1.5
TRAINING = rade.Training(lr=0.01, epochs=40, patience=15)


class GCN(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(FEATURES, 32), GCNConv(32, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        logits: Tensor = self.conv2(x, edge_index)
        return logits


def blocks() -> Data:
    """Three communities, whose features separate them only on average; three random splits."""
    torch.manual_seed(0)
    inside, between = torch.full((CLASSES, CLASSES), 0.01).fill_diagonal_(0.06), [PER_CLASS] * CLASSES
    edge_index = stochastic_blockmodel_graph(between, inside)
    y = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
    x = torch.nn.functional.one_hot(y, FEATURES).float() + NOISE * torch.randn(len(y), FEATURES)
    split = RandomNodeSplit(num_splits=3, num_train_per_class=15, num_val=45, num_test=90, split="random")
    data: Data = split(Data(x=x, edge_index=edge_index, y=y))
    return data


def main() -> None:
    found = rade.compare(
        GCN,
        blocks(),
        methods=("none", "drop-edge", "rade-of"),
        seeds=4,
        training=TRAINING,
        progress=print,
    )
    print(found.table())
    for difference in found.differences.values():
        print(difference)
    # found.plot().savefig("comparison.png"); store="mine.sqlite" keeps all runs


if __name__ == "__main__":  # other processes import this file for the model
    main()
