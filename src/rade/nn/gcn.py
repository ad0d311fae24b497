"""GCNConv and SGConv: symmetric degree normalisation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from rade.correction import propagate
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent, Sum, Symmetric
from rade.nn.base import CorrectedConv, pushed
from rade.nn.linear import lean, linear, matmul


class GCNConv(CorrectedConv, pyg.GCNConv):
    """PyG's GCNConv, a_i = Σ_j m_j/√(d_i d_j) with m = Θx, corrected on views (Eq. 6, 10; Appendix C.II)."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        if edge_weight is not None:
            return self._weighted(x, edge_index, edge_weight)
        x = lean(x)
        out = self.send_through(self.lin, edge_index, self.coefficients(edge_index.graph, x), x)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """1/√(d_i d_j), or plain sums for ``normalize=False``."""
        if not self.normalize:
            return Sum(graph, x.dtype)
        loop = (improved_loop() if self.improved else 1.0) if self.add_self_loops else 0.0
        return Symmetric(graph, x.dtype, loop)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Θx through the head."""
        return Sent(self.coefficients(graph, x), matmul(x, pushed(head, self.lin.weight)))

    def _weighted(self, x: Tensor, adjacency: Adjacency, edge_weight: Tensor) -> Tensor:
        """Weighted normalisation on the clean graph is PyG's; on a view it has no moments here."""
        if not isinstance(adjacency, Graph):
            raise ValueError(
                "GCNConv with edge_weight is not supported on random views: its degrees would be weighted; "
                "use GraphConv for weighted edges, or leave edge_weight out"
            )
        return cast(Tensor, super().forward(x, adjacency.edge_index, edge_weight[adjacency.order]))


@lru_cache(maxsize=1)
def improved_loop() -> float:
    """The self-loop weight of ``improved=True`` in the installed PyG, read off a single edge.

    Documented is 2, but without edge weights PyG 2.8.1 adds loops of weight 1; a wrapped model must agree with it.
    """
    edge = torch.tensor([[0, 1], [1, 0]])
    index, weight = gcn_norm(edge, None, 2, improved=True)
    share = float(weight[index[0] == index[1]][0])
    return float(round(share / (1.0 - share)))  # loops weigh 1 or 2, read in single precision


class SGConv(CorrectedConv, pyg.SGConv):
    """PyG's SGConv: K propagation steps and one linear map; every step is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, F_out]. The linear map comes first: it commutes with the steps and makes them narrower."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        if edge_weight is not None:
            raise ValueError("SGConv with edge_weight is not supported on a Graph or View; leave edge_weight out")
        out = linear(self.lin, lean(x), bias=False)
        for step in range(self.K):
            out = self.send(edge_index, self.coefficients(edge_index.graph, x), out, step)
        return out if self.lin.bias is None else out + self.lin.bias

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """1/√(d_i d_j)."""
        return Symmetric(graph, x.dtype, 1.0 if self.add_self_loops else 0.0)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last of the K steps sends."""
        coefficients = self.coefficients(graph, x)
        messages = matmul(x, pushed(head, self.lin.weight))
        for _ in range(self.K - 1):
            messages = propagate(graph, coefficients, messages)
        return Sent(coefficients, messages)
