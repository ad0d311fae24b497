"""APPNP and LGConv: propagation without parameters."""

from __future__ import annotations

from typing import Any, cast

import torch_geometric.nn as pyg
from torch import Tensor

from rade.correction import propagate
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent
from rade.nn.base import CorrectedConv
from rade.nn.hops import symmetric
from rade.nn.linear import dense, matmul


class APPNP(CorrectedConv, pyg.APPNP):
    """PyG's APPNP, x ← (1−α) Â x + α h, K times; every step is corrected."""

    def check_options(self) -> None:
        """Sums only; its own dropout of edges would come on top of RADE's."""
        super().check_options()
        self.refuse("dropout", self._option("dropout"), (0.0,))

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → the same shape."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        first = out = dense(x)
        for step in range(self.K):
            sums = self.send(edge_index, self.coefficients(edge_index.graph, first, edge_weight), out, step)
            out = (1.0 - self.alpha) * sums + self.alpha * first
        return out

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j), or plain sums for ``normalize=False``."""
        return symmetric(graph, x, edge_weight, float(self.add_self_loops), self.normalize, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last step sends."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        first = out = dense(x) if head is None else matmul(x, head)
        for _ in range(self.K - 1):
            out = (1.0 - self.alpha) * propagate(graph, coefficients, out) + self.alpha * first
        return Sent(coefficients, (1.0 - self.alpha) * out)


class LGConv(CorrectedConv, pyg.LGConv):
    """PyG's LGConv, Σ_j x_j/√(d_i d_j), corrected on views: the layer of LightGCN."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → the same shape."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        return self.send(edge_index, self.coefficients(edge_index.graph, x, edge_weight), dense(x))

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j) without self-loops, or plain sums for ``normalize=False``."""
        return symmetric(graph, x, edge_weight, 0.0, self.normalize, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """x through the head."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        return Sent(coefficients, dense(x) if head is None else matmul(x, head))
