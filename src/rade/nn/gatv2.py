"""GATv2Conv: attention whose scores are functions of pairs."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, ScoredAttention, Sent
from rade.moments.attention.scores import Attributes, FeatureScores
from rade.nn.attributes import Imputed, with_loops
from rade.nn.base import CorrectedConv, own_linear
from rade.nn.gat import head_by_head, refuse_attention_weights
from rade.nn.linear import linear


class GATv2Conv(CorrectedConv, pyg.GATv2Conv):
    """PyG's GATv2Conv, softmax of a·LeakyReLU(W_l x_j + W_r x_i + e_ij), corrected on views.

    Exact on small graphs; on larger ones sums over non-neighbors are the paper's estimate from a sample of them.
    """

    added_attr: Imputed = "mean"
    hears_everybody = True  # scores are compared within the whole graph

    def forward(  # type: ignore[no-untyped-def]
        self,
        x: Tensor,
        edge_index: Tensor | Adjacency,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ):
        """x [n, F_in] (dense or CSR) → [n, H·F_out] or [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return super().forward(x, edge_index, edge_attr, return_attention_weights)
        refuse_attention_weights(self, return_attention_weights)
        out = self.send(edge_index, self.coefficients(edge_index.graph, x, edge_attr), self._features(self.lin_l, x))
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out if self.res is None else out + own_linear(self.res, edge_index, x)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_attr: Tensor | None = None) -> Coefficients:
        """Scores of all pairs, on demand."""
        source, target = self._features(self.lin_l, x), self._features(self.lin_r, x)
        extra = Attributes()
        if edge_attr is not None:
            if self.lin_edge is None:
                raise ValueError("GATv2Conv takes edge_attr only if it was built with edge_dim=...")
            extra = with_loops(graph, edge_attr, "GATv2Conv", self.added_attr, self.fill_value, self._edge_term)
        scores = FeatureScores(graph, target, source, self._score, self.add_self_loops, extra, self._matrix)
        return ScoredAttention(scores, x.dtype, self.dropout if self.training else 0.0)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Each head's W_l x through its part of the linear head, [n, H, C]."""
        messages = torch.einsum("nhf,hcf->nhc", self._features(self.lin_l, x), head_by_head(self, head, x))
        return Sent(self.coefficients(graph, x, inputs.get("edge_attr")), messages)

    def _score(self, query: Tensor, key: Tensor) -> Tensor:
        weights: Tensor = self.att
        return (leaky_relu(query + key, self.negative_slope) * weights).sum(-1)

    def _matrix(self, query: Tensor, key: Tensor) -> Tensor:
        weights: Tensor = self.att
        pairs = query.transpose(0, 1).unsqueeze(2) + key.transpose(0, 1).unsqueeze(1)  # [H, n, S, C]
        found = leaky_relu(pairs, self.negative_slope).flatten(1, 2) @ weights.transpose(0, 1).mT
        return found.view(pairs.shape[:3]).transpose(0, 1)

    def _features(self, layer: Any, x: Tensor) -> Tensor:
        return linear(layer, x).view(-1, self.heads, self.out_channels)

    def _edge_term(self, attributes: Tensor) -> Tensor:
        """What attributes [·, D] add to features, [·, H, F_out]."""
        out: Tensor = self.lin_edge(attributes).view(-1, self.heads, self.out_channels)
        return out
