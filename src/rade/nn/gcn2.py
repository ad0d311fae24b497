"""GCN2Conv and GatedGraphConv: aggregation, then a map of the layer's own."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent
from rade.nn.base import CorrectedConv, pushed
from rade.nn.hops import symmetric
from rade.nn.linear import dense, matmul
from rade.nn.sage import AGGREGATORS
from rade.nn.weights import weighted


class GCN2Conv(CorrectedConv, pyg.GCN2Conv):
    """PyG's GCN2Conv, ((1−α) Â x + α x₀)((1−β) + β W), corrected on views."""

    def forward(
        self, x: Tensor, x_0: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None
    ) -> Tensor:
        """x and the first features x_0 [n, F_in] → the same shape."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, x_0, edge_index, edge_weight))
        sums = (1.0 - self.alpha) * self.send(edge_index, self.coefficients(edge_index.graph, x, edge_weight), dense(x))
        first = self.alpha * dense(x_0)
        if self.weight2 is None:
            return self._mapped(sums + first, self.weight1)
        return self._mapped(sums, self.weight1) + self._mapped(first, self.weight2)

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j), or plain sums for ``normalize=False``."""
        return symmetric(graph, x, edge_weight, float(self.add_self_loops), self.normalize, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """x through the layer's map and the head."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        unit = torch.eye(self.channels, dtype=x.dtype, device=x.device)
        matrix = self._mapped(unit, self.weight1).t()
        return Sent(coefficients, (1.0 - self.alpha) * matmul(x, pushed(head, matrix)))

    def _mapped(self, x: Tensor, weight: Tensor) -> Tensor:
        return torch.addmm(x, x, weight, beta=1.0 - self.beta, alpha=self.beta)


class GatedGraphConv(CorrectedConv, pyg.GatedGraphConv):
    """PyG's GatedGraphConv: sums (or means) of x W_k into a gated unit, several times; every step is corrected."""

    aggregations = tuple(AGGREGATORS)

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] with F_in ≤ F_out → [n, F_out]."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        x = dense(x)
        missing = self.out_channels - x.shape[1]
        if missing < 0:
            raise ValueError(f"GatedGraphConv takes at most {self.out_channels} features, got {x.shape[1]}")
        x = torch.nn.functional.pad(x, (0, missing))
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)
        for step in range(self.num_layers):
            x = self.rnn(self.send(edge_index, coefficients, x @ self.weight[step], step), x)
        return x

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij or e_ij/d_i."""
        base = AGGREGATORS[self.aggregation](graph, x.dtype)
        return base if edge_weight is None else weighted(base, graph, edge_weight, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """A gated unit has no linear part."""
        raise ValueError(
            "cannot push messages through the gated unit of GatedGraphConv: rates that follow a "
            "regulariser need a linear "
            "map; use rule=rade.NoiseRatio() or rule=rade.Constant()"
        )
