"""An aggregator of your own in one file: a_i = Σ_j w_j m_j, w_j = (deg(j) + 1)/(deg(j) + 2), so that hubs speak louder.

RADE asks an aggregator for its coefficients on the graph and on a view, and for their means and variances. Here w_j is
that of the clean graph and only the edge itself is random: E[α'] = π w_j and Var[α'] = π(1−π) w_j², with π = 1−p on
edges and q on non-edges.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import MessagePassing

import rade
from rade.correction import propagate
from rade.graph.operator import LowRank, complement
from rade.moments import Coefficients, Moments, Weights
from rade.nn import CorrectedConv
from rade.nn.base import pushed
from rade.view.view import Law, View


class Louder(Coefficients):
    """α_ij = A_ij w_j."""

    @property
    def loudness(self) -> Tensor:
        degree = self.graph.degree.to(self.dtype)
        return (degree + 1.0) / (degree + 2.0)

    def clean(self) -> Weights:
        return Weights(self.loudness[self.graph.pattern.source], self.no_loop(), self.nothing_added())

    def on(self, view: View) -> Weights:
        edges = self.loudness[self.graph.pattern.source] * view.kept
        return Weights(edges, self.no_loop(), self.loudness[view.added.source])

    def mean(self, law: Law) -> Moments:
        return self._separable(1.0 - law.rates.p, law.rates.q, self.loudness)

    def variance(self, law: Law) -> Moments:
        p, q = law.rates.p, law.rates.q
        return self._separable(p * (1.0 - p), q * (1.0 - q), self.loudness.square())

    def _separable(self, edge: float | Tensor, nonedge: float | Tensor, weight: Tensor) -> Moments:
        """edge · w_j on edges, nonedge · w_j on non-edges: those are an operator, never a list."""
        target = self.everywhere(nonedge, self.graph.num_nodes)
        nonedges = complement(self.graph, LowRank(self.graph, target[:, None], weight[:, None]))
        return Moments(edge * weight[self.graph.pattern.source], self.no_loop(), nonedges)


class LouderConv(CorrectedConv, MessagePassing):
    """Σ_j w_j Θx_j + Φx_i; RADE passes a Graph, a View or a MeanView as ``edge_index``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin, self.root = torch.nn.Linear(inputs, outputs, bias=False), torch.nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: rade.Graph | View | rade.MeanView) -> Tensor:
        out: Tensor = self.root(x) + propagate(edge_index, Louder(edge_index.graph, x.dtype), self.lin(x))
        return out

    def logit_messages(self, head: Tensor | None, graph: rade.Graph, x: Tensor, **_: object) -> tuple[Louder, Tensor]:
        """For the rates, where this is the last layer: Θx through the linear head."""
        return Louder(graph, x.dtype), x @ pushed(head, self.lin.weight).t()


class Net(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv, self.head = LouderConv(features, 32), torch.nn.Linear(32, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.head(self.conv(x, edge_index).relu())
        return logits


def main() -> None:
    dataset = rade.data.csbm(nodes=800, words=300)
    data, split, x = dataset.graphs[0], dataset.split(run=0), dataset.graphs[0].x.to_dense()
    torch.manual_seed(0)
    net = Net(dataset.features, dataset.classes)
    model = rade.RADE(net, density=dataset.density, generator=torch.Generator().manual_seed(0))
    graph = rade.Graph.from_edge_index(data.edge_index, data.num_nodes)
    with torch.no_grad():  # the law to check first: corrected views average to the clean aggregation
        clean = net.conv(x, graph)
        views = [net.conv(x, rade.sample_view(graph, model.rates, model.generator)) for _ in range(400)]
        for count in (1, 20, 400):
            away = (torch.stack(views[:count]).mean(0) - clean).norm() / clean.norm()
            print(f"the mean of {count} views is {away:.1%} away from the clean aggregation")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()
        model.adapt(x, data.edge_index, index=split.train)
    right = (model.eval()(x, data.edge_index).argmax(1) == data.y)[split.test].float().mean()
    print(f"test accuracy {right:.1%}, p = {model.rates.p:.3f}, ρ = {model.controller.rho:.3f}")


if __name__ == "__main__":
    main()
