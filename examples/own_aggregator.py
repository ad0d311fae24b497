"""An aggregator of your own, in one class: a_i = Σ_j w_j m_j, w_j = (deg(j) + 1)/(deg(j) + 2), so that hubs count more.

RADE trains the layer as it is, by pairs of views. With moments it has less noise, RADE-OFS and the paper's rule: say
what α is on the graph and on a view, and its mean and variance. Here only the edge is random: E[α'] = π w_j and
Var[α'] = π(1−π) w_j², with π = 1−p on edges and q on non-edges. What else there is, `Coefficients` says
(src/rade/moments/base.py): degrees of a view and their moments for one that divides by these, a key, a response.
"""

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree

import rade
from rade.moments import Coefficients, Distribution, Moments, View, Weights, over_nonedges


class LouderConv(MessagePassing):
    """Plain PyG, nothing of RADE in here."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

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

    def on(self, view: View) -> Weights:
        edges = self.loudness[self.graph.pattern.source] * view.kept
        return Weights(edges, self.no_loop(), self.loudness[view.added.source])

    def mean(self, distribution: Distribution) -> Moments:
        p, q = distribution.rates.p, distribution.rates.q
        return self.moments(1.0 - p, q, torch.ones_like(self.loudness), self.loudness)

    def variance(self, distribution: Distribution) -> Moments:
        p, q = distribution.rates.p, distribution.rates.q
        return self.moments(p * (1.0 - p), q * (1.0 - q), torch.ones_like(self.loudness), self.loudness.square())

    def covariance(self, distribution: Distribution) -> Moments:
        """Of both directions of a pair, for pooled models: they share the edge, π(1−π) w_i w_j."""
        p, q = distribution.rates.p, distribution.rates.q
        return self.moments(p * (1.0 - p), q * (1.0 - q), self.loudness, self.loudness)

    def moments(self, edge: float | Tensor, nonedge: float | Tensor, left: Tensor, right: Tensor) -> Moments:
        """left_i right_j, times ``edge`` on edges and ``nonedge`` on non-edges: those are sums, never a list."""
        edges = edge * left[self.graph.pattern.target] * right[self.graph.pattern.source]
        return Moments(edges, self.no_loop(), over_nonedges(self.graph, nonedge * left[:, None], right[:, None]))


if __name__ == "__main__":
    # 1e-8 with `degree_moments`; shares=True where α_ij depends on A_ji as well; meets=False without a `covariance`.
    louder = rade.testing.Aggregator("louder", rade.testing.plain(Louder), tolerance=1e-10)
    for name, check in rade.testing.CHECKS.items():  # every promise that RADE builds on, on all views of small graphs
        check(louder)
        print(f"holds: {name.replace('_', ' ')}")
    rade.register(LouderConv, Louder)
    print(rade.check(LouderConv(), torch.eye(3), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])))
