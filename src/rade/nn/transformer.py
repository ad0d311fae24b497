"""TransformerConv: dot-product attention, with edge attributes in keys and values."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.graph.messages import Messages, along_edges
from rade.moments import Coefficients, ScoredAttention, Sent
from rade.moments.attention.scores import Attributes, FeatureScores
from rade.nn.attributes import Imputed, with_loops
from rade.nn.base import CorrectedConv, own_linear
from rade.nn.gat import head_by_head, refuse_attention_weights
from rade.nn.linear import linear


class TransformerConv(CorrectedConv, pyg.TransformerConv):
    """PyG's TransformerConv, softmax of q_i·(k_j + e_ij)/√F over values v_j + e_ij, corrected on views.

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
        coefficients, values = self._parts(edge_index.graph, x, edge_attr)
        out = self.send(edge_index, coefficients, values)
        out = out.flatten(1) if self.concat else out.mean(1)
        if not self.root_weight:
            return out
        root = own_linear(self.lin_skip, edge_index, x)
        if self.lin_beta is None:
            return out + root
        beta = self.lin_beta(torch.cat([out, root, out - root], dim=-1)).sigmoid()
        return beta * root + (1 - beta) * out

    @property
    def bends(self) -> str:
        """Gated sums."""
        return "" if self.lin_beta is None else "beta=True"

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Each head's values through its part of the linear head."""
        if self.lin_beta is not None:
            raise ValueError(
                "cannot push messages through the gate of TransformerConv(beta=True): rates that follow a regulariser "
                "need a linear map; use rule=rade.NoiseRatio() or rule=rade.Constant()"
            )
        coefficients, values = self._parts(graph, x, inputs.get("edge_attr"))
        per_head = head_by_head(self, head, x)
        if not isinstance(values, Messages):
            return Sent(coefficients, torch.einsum("nhf,hcf->nhc", values, per_head))
        nodes, edges = (torch.einsum("nhf,hcf->nhc", part, per_head) for part in (values.nodes, values.edges))
        return Sent(coefficients, Messages(nodes, edges))

    def _parts(self, graph: Graph, x: Tensor, edge_attr: Tensor | None) -> tuple[Coefficients, Tensor | Messages]:
        """Coefficients, and the values that travel along edges and to anybody else."""
        query, key, value = (self._features(layer, x) for layer in (self.lin_query, self.lin_key, self.lin_value))
        extra = Attributes()
        messages: Tensor | Messages = value
        if self.lin_edge is not None:
            extra = with_loops(graph, edge_attr, "TransformerConv", self.added_attr, 0.0, self._edge_term)
            messages = Messages(value + extra.others, along_edges(value, graph.pattern) + extra.edges)
        elif edge_attr is not None:
            raise ValueError("TransformerConv takes edge_attr only if it was built with edge_dim=...")
        scores = FeatureScores(graph, query, key, self._score, False, extra, self._matrix)
        return ScoredAttention(scores, x.dtype, self.dropout if self.training else 0.0), messages

    def _score(self, query: Tensor, key: Tensor) -> Tensor:
        return (query * key).sum(-1) / math.sqrt(self.out_channels)

    def _matrix(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.einsum("nhc,shc->nhs", query, key) / math.sqrt(self.out_channels)

    def _features(self, layer: Any, x: Tensor) -> Tensor:
        return linear(layer, x).view(-1, self.heads, self.out_channels)

    def _edge_term(self, attributes: Tensor) -> Tensor:
        """What attributes [·, D] add to keys and values, [·, H, F_out]."""
        out: Tensor = self.lin_edge(attributes).view(-1, self.heads, self.out_channels)
        return out
