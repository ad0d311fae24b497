"""GINEConv: sums of ReLU(x_j + e_ij), with edge attributes."""

from __future__ import annotations

from typing import Any, cast

import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.graph.messages import Messages, along_edges
from rade.moments import Coefficients, Sent, Sum
from rade.nn.attributes import Imputed, attributes_in_order, imputed
from rade.nn.base import CorrectedConv, linear_part
from rade.nn.linear import dense


class GINEConv(CorrectedConv, pyg.GINEConv):
    """PyG's GINEConv, nn((1+ε) x_i + Σ_j ReLU(x_j + e_ij)), corrected on views.

    Added edges have an imputed attribute, ``added_attr``: by default the mean over the edges of the graph.
    """

    added_attr: Imputed = "mean"
    hears_everybody = True  # messages of edges are formed for all of them

    def forward(
        self, x: Tensor, edge_index: Tensor | Adjacency, edge_attr: Tensor | None = None, size: Any = None
    ) -> Tensor:
        """x [n, F_in] → [n, F_out]; ``edge_attr`` [E, D] in the order of the given edge_index."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_attr, size))
        x = dense(x)
        messages = self.messages(edge_index.graph, x, edge_attr)
        sums = self.send(edge_index, self.coefficients(edge_index.graph, x), messages)
        return cast(Tensor, self.nn(sums + (1 + self.eps) * edge_index.own(x)))

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """α_ij = 1."""
        return Sum(graph, x.dtype)

    def messages(self, graph: Graph, x: Tensor, edge_attr: Tensor | None) -> Messages:
        """ReLU(x_j + e_ij) along edges, ReLU(x_j + ē) to anybody else."""
        attributes = attributes_in_order(graph, edge_attr, type(self).__name__)
        others = imputed(graph, attributes, self.added_attr)
        if self.lin is not None:
            attributes, others = self.lin(attributes), self.lin(others)
        if attributes.shape[1] != x.shape[1]:
            raise ValueError(
                f"{type(self).__name__} adds edge_attr to features: expected {x.shape[1]} columns, got "
                f"{attributes.shape[1]}; set edge_dim={attributes.shape[1]}"
            )
        return Messages((x + others).relu(), (along_edges(x, graph.pattern) + attributes).relu())

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Messages through the linear part of the network and the head."""
        messages = self.messages(graph, dense(x), inputs.get("edge_attr"))
        return Sent(self.coefficients(graph, x), messages.through(linear_part(head, self.nn)))
