"""Molecules whose bonds have attributes: convolutions like those of OGB's molecule models, with a bond encoder inside.

`rade.RADE(net)` takes them as they are and corrects them by pairs of views. Here they are corrected by moments: an
added edge is no bond, so it gets one, the most frequent kind of its molecule. Then what a non-neighbor sends depends on
the sender alone, and all that RADE computes in closed form stays as it is; real bonds keep their own messages.
(PyG's GINEConv has such a twin in rade already.)
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing, global_mean_pool
from torch_geometric.utils import degree, erdos_renyi_graph

import rade
from rade.moments import Normalised
from rade.nn import LayerViews
from rade.nn.edge_values import attributes_in_order, imputed
from rade.nn.linear import linear_part
from rade.sums import Messages

ATOMS, BONDS, WIDTH, EPOCHS = 6, 3, 32, 10


class BondGIN(MessagePassing):
    """mlp((1+ε) x_i + Σ_j ReLU(x_j + bond_ij)); nothing of RADE in here."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
        self.eps, self.bonds = torch.nn.Parameter(torch.zeros(1)), torch.nn.Embedding(BONDS, width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        out: Tensor = self.mlp((1 + self.eps) * x + self.propagate(edge_index, x=x, e=self.bonds(edge_attr)))
        return out

    def message(self, x_j: Tensor, e: Tensor) -> Tensor:
        return (x_j + e).relu()


class BondGCN(MessagePassing):
    """Σ_j ReLU(Wx_j + bond_ij)/√(d_i d_j) + ReLU(Wx_i + root)/d_i, with d one more than the degree; as above."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.bonds = torch.nn.Linear(width, width), torch.nn.Embedding(BONDS, width)
        self.root = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        x, d = self.lin(x), degree(edge_index[1], len(x)) + 1
        norm = (d[edge_index[0]] * d[edge_index[1]]).rsqrt()
        sums: Tensor = self.propagate(edge_index, x=x, e=self.bonds(edge_attr), norm=norm)
        return sums + (x + self.root).relu() / d[:, None]

    def message(self, x_j: Tensor, e: Tensor, norm: Tensor) -> Tensor:
        return norm[:, None] * (x_j + e).relu()


def bond_messages(conv: Any, graph: rade.Graph, x: Tensor, edge_attr: Tensor) -> Messages:
    """ReLU(x_j + bond_ij) along bonds, ReLU(x_j + most frequent bond) to anybody else."""
    kinds = attributes_in_order(graph, edge_attr, type(conv).__name__)
    bonds, others = (conv.bonds(kind.squeeze(1)) for kind in (kinds, imputed(graph, kinds, "frequent")))
    return Messages((x + others).relu(), (x[graph.pattern.source] + bonds).relu())


class BondGINOnViews(rade.nn.CorrectedConv, BondGIN):
    """The twin of BondGIN: sums, and a network that follows them."""

    def on(self, x: Tensor, edge_index: LayerViews, edge_attr: Tensor) -> Tensor:
        graph = edge_index.graph
        messages = bond_messages(self, graph, x, edge_attr)
        out: Tensor = self.mlp((1 + self.eps) * x + self.send(edge_index, Normalised.sum(graph, x.dtype), messages))
        return out

    def after_sum(self, head: Tensor | None, width: int) -> Tensor | None:
        return linear_part(head, self.mlp)


class BondGCNOnViews(rade.nn.CorrectedConv, BondGCN):
    """The twin of BondGCN: symmetric normalisation by degrees that count a loop, whose message is one of its own."""

    def on(self, x: Tensor, edge_index: LayerViews, edge_attr: Tensor) -> Tensor:
        x, graph = self.lin(x), edge_index.graph
        coefficients = Normalised(graph, x.dtype, a=0.5, b=0.5, loop=1.0, gain=0.0)
        sums = self.send(edge_index, coefficients, bond_messages(self, graph, x, edge_attr))
        return sums + (x + self.root).relu() / (graph.degree[:, None] + 1)


class Molecules(torch.nn.Module):
    def __init__(self, conv: type[BondGIN] | type[BondGCN]) -> None:
        super().__init__()
        self.atoms, self.conv1, self.conv2 = torch.nn.Embedding(ATOMS, WIDTH), conv(WIDTH), conv(WIDTH)
        self.head = torch.nn.Linear(WIDTH, 2)

    def forward(self, data: Batch) -> Tensor:
        x = self.conv1(self.atoms(data.x), data.edge_index, data.edge_attr).relu()
        x = self.conv2(x, data.edge_index, data.edge_attr)
        logits: Tensor = self.head(global_mean_pool(x, data.batch))
        return logits


def molecule(label: int) -> Data:
    """Random atoms; bonds of one kind are more frequent than those of another, which only their attributes tell."""
    nodes = int(torch.randint(10, 20, (1,)))
    edges = erdos_renyi_graph(nodes, 0.2)
    chance = torch.tensor([0.4, 0.2, 0.4] if label else [0.4, 0.4, 0.2])
    kinds = torch.multinomial(chance, nodes * nodes, replacement=True)
    low, high = edges.min(0).values, edges.max(0).values
    return Data(torch.randint(ATOMS, (nodes,)), edges, kinds[low * nodes + high], y=torch.tensor([label]))


def main() -> None:
    rade.register(BondGIN, BondGINOnViews)
    rade.register(BondGCN, BondGCNOnViews)
    torch.manual_seed(0)
    graphs = [molecule(k % 2) for k in range(600)]
    train, test = DataLoader(graphs[:400], 50, shuffle=True), Batch.from_data_list(graphs[400:])
    for conv in (BondGIN, BondGCN):
        net = Molecules(conv)
        rule, readout = rade.GradNorm(p=0.2, rho=0.2, penalty=0.1, max_p=0.9), rade.Readout(pool="mean")
        model = rade.RADE(net, rule=rule, readout=readout)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        model.follow(optimizer)
        for _ in range(EPOCHS):
            model.train()
            for batch in train:
                optimizer.zero_grad()
                cross_entropy(model(batch), batch.y).backward()
                optimizer.step()
        right = (model.eval()(test).argmax(1) == test.y).float().mean()
        apart = (model(test) - rade.revert(model)(test)).abs().max()
        print(
            f"{conv.__name__}: test accuracy {right:.1%}, p = {model.rates.p:.3f}; plain layers differ by {apart:.0e}"
        )


if __name__ == "__main__":
    main()
