"""An aggregator of your own in one file: a_i = Σ_j w_j m_j, w_j = (deg(j) + 1)/(deg(j) + 2), so that hubs speak louder.

The layer is plain PyG. RADE trains it as it is, corrected by pairs of views. To have it corrected by moments, which
leaves less noise and is what RADE-OFS and the paper's rule need, say what its coefficients are on a view, and their
means and variances. Here w_j is that of the clean graph and only the edge itself is random: E[α'] = π w_j and
Var[α'] = π(1−π) w_j², with π = 1−p on edges and q on non-edges.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree

import rade
from rade.distribution import Distribution
from rade.moments import Coefficients, Moments, Weights
from rade.sums import over_nonedges


class LouderConv(MessagePassing):
    """Σ_j w_j Θx_j + Φx_i; nothing of RADE in here."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.root = torch.nn.Linear(inputs, outputs, bias=False), torch.nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.root(x) + self.propagate(edge_index, x=self.lin(x))
        return out

    def message(self, x_j: Tensor, edge_index_j: Tensor, edge_index: Tensor, size_i: int) -> Tensor:
        count = degree(edge_index[1], size_i)[edge_index_j]
        return ((count + 1.0) / (count + 2.0))[:, None] * x_j


class Louder(Coefficients):
    """α_ij = A_ij w_j."""

    @property
    def loudness(self) -> Tensor:
        """w_j, [n]."""
        degree = self.graph.degree.to(self.dtype)
        return (degree + 1.0) / (degree + 2.0)

    def clean(self) -> Weights:
        return Weights(self.loudness[self.graph.pattern.source], self.no_loop(), self.nothing_added())

    def on(self, view: rade.View) -> Weights:
        edges = self.loudness[self.graph.pattern.source] * view.kept
        return Weights(edges, self.no_loop(), self.loudness[view.added.source])

    def mean(self, distribution: Distribution) -> Moments:
        p, q = distribution.rates.p, distribution.rates.q
        return self._moments(1.0 - p, q, torch.ones_like(self.loudness), self.loudness)

    def variance(self, distribution: Distribution) -> Moments:
        p, q = distribution.rates.p, distribution.rates.q
        return self._moments(p * (1.0 - p), q * (1.0 - q), torch.ones_like(self.loudness), self.loudness.square())

    def covariance(self, distribution: Distribution) -> Moments:
        """Of both directions of a pair, for pooled models: they share the edge, π(1−π) w_i w_j."""
        p, q = distribution.rates.p, distribution.rates.q
        return self._moments(p * (1.0 - p), q * (1.0 - q), self.loudness, self.loudness)

    def _moments(self, edge: Any, nonedge: Any, left: Tensor, right: Tensor) -> Moments:
        """left_i right_j, times ``edge`` on edges and ``nonedge`` on non-edges: those are sums, never a list."""
        edges = edge * left[self.graph.pattern.target] * right[self.graph.pattern.source]
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, nonedge * left[:, None], right[:, None]))


class LouderOnViews(rade.nn.CorrectedConv, LouderConv):
    """The twin of LouderConv: PyG's own forward, with sums by these coefficients."""

    def coefficients(self, graph: rade.Graph, x: Tensor, **_: Any) -> Coefficients:
        return Louder(graph, x.dtype)


class Net(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv, self.head = LouderConv(features, 32), torch.nn.Linear(32, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.head(self.conv(x, edge_index).relu())
        return logits


def main() -> None:
    rade.register(LouderConv, LouderOnViews)
    louder = rade.testing.Aggregator("louder", rade.testing.plain(Louder), tolerance=1e-10)
    for name, check in rade.testing.CHECKS.items():  # every promise that RADE builds on, on all views of small graphs
        check(louder)
        print(f"holds: {name.replace('_', ' ')}")
    dataset = rade.data.csbm(nodes=800)
    data, split, x = dataset.graphs[0], dataset.split(run=0), dataset.graphs[0].x
    torch.manual_seed(0)
    net = Net(dataset.features, dataset.classes)
    print(rade.check(net, x, data.edge_index))
    model = rade.RADE(net, rule=rade.GradNorm(), density=dataset.density, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model.follow(optimizer)
    for _ in range(40):
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(x, data.edge_index)[split.train], data.y[split.train]).backward()
        optimizer.step()
    right = (model.eval()(x, data.edge_index).argmax(1) == data.y)[split.test].float().mean()
    print(f"test accuracy {right:.1%}, p = {model.rates.p:.3f}, ρ = {model.rate_state.rho_now:.3f}")


if __name__ == "__main__":
    main()
