"""ClusterGCNConv: means over neighbors and the node itself, whose own part is enhanced."""

from __future__ import annotations

from typing import Any, cast

import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Mean, Sent
from rade.nn.base import CorrectedConv, own_linear, pushed
from rade.nn.linear import matmul
from rade.nn.plain import weight_of


class ClusterGCNConv(CorrectedConv, pyg.ClusterGCNConv):
    """PyG's ClusterGCNConv, W (Σ_j x_j + (1+λ) x_i)/(d_i + 1) + W' x_i, corrected on views."""

    def check_options(self) -> None:
        """Its own part needs a loop at every node, and those of the edge_index are set aside."""
        super().check_options()
        self.refuse("add_self_loops", self._option("add_self_loops"), (True,))

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index))
        out = self.send_through(self.lin_out, edge_index, self.coefficients(edge_index.graph, x), x)
        return out + own_linear(self.lin_root, edge_index, x)

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """1/(d_i + 1)."""
        return Mean(graph, x.dtype, loop=1.0, gain=1.0 + self.diag_lambda)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """W x through the head."""
        return Sent(self.coefficients(graph, x), matmul(x, pushed(head, weight_of(self.lin_out))))
