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
from rade.graph import LowRank, graph_of, over_nonedges
from rade.moments import Coefficients, Moments, Sent, Weights
from rade.nn import CorrectedConv
from rade.nn.base import pushed


class Louder(Coefficients):
    """α_ij = A_ij w_j."""

    @property
    def loudness(self) -> Tensor:
        degree = self.graph.degree.to(self.dtype)
        return (degree + 1.0) / (degree + 2.0)

    def clean(self) -> Weights:
        return Weights(self.loudness[self.graph.pattern.source], self.no_loop(), self.nothing_added())

    def on(self, view: rade.View) -> Weights:
        edges = self.loudness[self.graph.pattern.source] * view.kept
        return Weights(edges, self.no_loop(), self.loudness[view.added.source])

    def mean(self, law: rade.Law) -> Moments:
        return self._separable(1.0 - law.rates.p, law.rates.q, self.loudness)

    def variance(self, law: rade.Law) -> Moments:
        p, q = law.rates.p, law.rates.q
        return self._separable(p * (1.0 - p), q * (1.0 - q), self.loudness.square())

    def covariance(self, law: rade.Law) -> Moments:
        """Of both directions of a pair, for pooled models: they share the edge, π(1−π) w_i w_j."""
        p, q, w = law.rates.p, law.rates.q, self.loudness
        kernel = LowRank(self.graph, (q * (1.0 - q) * w)[:, None], w[:, None])
        edges = p * (1.0 - p) * w[self.graph.pattern.source] * w[self.graph.pattern.target]
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, kernel))

    def _separable(self, edge: float | Tensor, nonedge: float | Tensor, weight: Tensor) -> Moments:
        """edge · w_j on edges, nonedge · w_j on non-edges: those are an operator, never a list."""
        target = self.everywhere(nonedge, self.graph.num_nodes)
        nonedges = over_nonedges(self.graph, LowRank(self.graph, target[:, None], weight[:, None]))
        return Moments(edge * weight[self.graph.pattern.source], self.no_loop(), nonedges)


class LouderConv(CorrectedConv, MessagePassing):
    """Σ_j w_j Θx_j + Φx_i; RADE passes a Graph, a View or a MeanView as ``edge_index``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin, self.root = torch.nn.Linear(inputs, outputs, bias=False), torch.nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor | rade.Adjacency) -> Tensor:
        adjacency = edge_index if isinstance(edge_index, rade.Adjacency) else graph_of(edge_index, len(x))
        out: Tensor = self.root(x) + self.send(adjacency, Louder(adjacency.graph, x.dtype), self.lin(x))
        return out

    def sent(self, head: Tensor | None, graph: rade.Graph, x: Tensor, **_: object) -> Sent:
        """For the rates, where this is the last layer: Θx through the linear head."""
        return Sent(Louder(graph, x.dtype), x @ pushed(head, self.lin.weight).t())


class Net(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv, self.head = LouderConv(features, 32), torch.nn.Linear(32, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.head(self.conv(x, edge_index).relu())
        return logits


def main() -> None:
    louder = rade.testing.Aggregator("louder", rade.testing.plain(Louder), tolerance=1e-10)
    for name, check in rade.testing.CHECKS.items():  # every promise that RADE builds on, on all views of small graphs
        check(louder)
        print(f"holds: {name.replace('_', ' ')}")
    dataset = rade.data.csbm(nodes=800)
    data, split, x = dataset.graphs[0], dataset.split(run=0), dataset.graphs[0].x
    torch.manual_seed(0)
    net = Net(dataset.features, dataset.classes)
    model = rade.RADE(net, rule=rade.GradNorm(), density=dataset.density, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()
        model.adapt(x, data.edge_index, labelled=split.train)
    right = (model.eval()(x, data.edge_index).argmax(1) == data.y)[split.test].float().mean()
    print(f"test accuracy {right:.1%}, p = {model.rates.p:.3f}, ρ = {model.controller.rho:.3f}")


if __name__ == "__main__":
    main()
