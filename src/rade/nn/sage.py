"""SAGEConv, GraphConv and SimpleConv: mean or sum over neighbors beside the node itself."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Mean, Sent, Sum
from rade.nn.base import CorrectedConv, own_linear, pushed
from rade.nn.linear import dense, lean, linear, matmul
from rade.nn.plain import weight_of
from rade.nn.weights import weighted

AGGREGATORS: dict[str, type[Coefficients]] = {"mean": Mean, "add": Sum, "sum": Sum}


class SAGEConv(CorrectedConv, pyg.SAGEConv):
    """PyG's SAGEConv with mean or sum, W_l · agg_j x_j + W_r x_i, corrected on views."""

    aggregations = tuple(AGGREGATORS)

    @property
    def bends(self) -> str:
        """Normalised sums."""
        return "normalize=True" if self.normalize else ""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, size: Any = None) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, size))
        x = lean(x)
        out = self.send_through(self.lin_l, edge_index, self.coefficients(edge_index.graph, x), self._projected(x))
        if self.root_weight:
            out = out + own_linear(self.lin_r, edge_index, x)
        return torch.nn.functional.normalize(out, p=2.0, dim=-1) if self.normalize else out

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """1/d_i or 1."""
        return AGGREGATORS[self.aggregation](graph, x.dtype)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """W_l x through the head."""
        return Sent(self.coefficients(graph, x), matmul(self._projected(x), pushed(head, weight_of(self.lin_l))))

    def _projected(self, x: Tensor) -> Tensor:
        return linear(self.lin, x).relu() if self.project else x


class GraphConv(CorrectedConv, pyg.GraphConv):
    """PyG's GraphConv, W_1 · agg_j e_ij x_j + W_2 x_i; corrected on views."""

    aggregations = tuple(AGGREGATORS)

    def forward(
        self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None, size: Any = None
    ) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_weight`` [E] in the order of the given edge_index."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight, size))
        x = lean(x)
        out = self.send_through(self.lin_rel, edge_index, self.coefficients(edge_index.graph, x, edge_weight), x)
        return out + own_linear(self.lin_root, edge_index, x)

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij or e_ij/d_i."""
        base = AGGREGATORS[self.aggregation](graph, x.dtype)
        return base if edge_weight is None else weighted(base, graph, edge_weight, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """W_1 x through the head."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        return Sent(coefficients, matmul(x, pushed(head, weight_of(self.lin_rel))))


class SimpleConv(CorrectedConv, pyg.SimpleConv):
    """PyG's SimpleConv, agg_j e_ij x_j (+ x_i), without parameters; corrected on views."""

    aggregations = tuple(AGGREGATORS)

    def check_options(self) -> None:
        """A loop or a second half of the features would be other coefficients."""
        super().check_options()
        self.refuse("combine_root", self.combine_root, (None, "sum"))

    def forward(
        self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None, size: Any = None
    ) -> Tensor:
        """x [n, F_in] → [n, F_in]; ``edge_weight`` [E] in the order of the given edge_index."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight, size))
        x = dense(x)
        out = self.send(edge_index, self.coefficients(edge_index.graph, x, edge_weight), x)
        return out if self.combine_root is None else out + edge_index.own(x)

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij or e_ij/d_i."""
        base = AGGREGATORS[self.aggregation](graph, x.dtype)
        return base if edge_weight is None else weighted(base, graph, edge_weight, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """x through the head."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        return Sent(coefficients, dense(x) if head is None else matmul(x, head))
