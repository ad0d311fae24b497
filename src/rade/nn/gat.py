"""GATConv: attention."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Attention, Coefficients, ScoredAttention, Sent
from rade.moments.attention.scores import EdgeScores
from rade.nn.attributes import Imputed, with_loops
from rade.nn.base import CorrectedConv, own_linear, sums_first
from rade.nn.linear import lean, linear, matmul
from rade.nn.plain import weight_of


class GATConv(CorrectedConv, pyg.GATConv):
    """PyG's GATConv, multi-head, with or without self-loops, corrected on views (Appendix C.III).

    With ``edge_attr``, added edges have an imputed one, ``added_attr``, and loops that of the clean graph.
    """

    added_attr: Imputed = "mean"
    hears_everybody = True  # scores are compared within the whole graph

    def check_options(self) -> None:
        super().check_options()
        if self.negative_slope < 0:
            raise ValueError(f"GATConv(negative_slope={self.negative_slope}) must be >= 0: weights grow with scores")

    def forward(  # type: ignore[no-untyped-def]
        self,
        x: Tensor,
        edge_index: Tensor | Adjacency,
        edge_attr: Tensor | None = None,
        size: Any = None,
        return_attention_weights: bool | None = None,
    ):
        """x [n, F_in] (dense or CSR) → [n, H·F_out] or [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return super().forward(x, edge_index, edge_attr, size, return_attention_weights)
        refuse_attention_weights(self, return_attention_weights)
        x = lean(x)
        out = self._attended(x, edge_index, edge_attr)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out if self.res is None else out + own_linear(self.res, edge_index, x)
        return out if self.bias is None else out + self.bias

    def _attended(self, x: Tensor, adjacency: Adjacency, edge_attr: Tensor | None) -> Tensor:
        """[k, H, F_out]: Θx is formed for everybody, or for few rows from sums of x itself, per head."""
        if self.heads == 1 and sums_first(adjacency, x, self.lin) and self.lin.bias is None:
            sums = self.send(adjacency, self.coefficients(adjacency.graph, x, edge_attr), x[:, None])
            return linear(self.lin, sums.flatten(0, 1))[:, None]
        h = linear(self.lin, x).view(-1, self.heads, self.out_channels)
        s, t = (h * self.att_src).sum(-1), (h * self.att_dst).sum(-1)
        return self.send(adjacency, self._attention(adjacency.graph, s, t, edge_attr), h)

    def coefficients(self, graph: Graph, x: Tensor, edge_attr: Tensor | None = None) -> Coefficients:
        """Scores a·Θx without forming Θx."""
        weight = weight_of(self.lin).view(self.heads, self.out_channels, -1)
        vectors = [(att.view(self.heads, 1, -1) @ weight).squeeze(1) for att in (self.att_src, self.att_dst)]
        s, t = torch.split(matmul(x, torch.cat(vectors)), self.heads, dim=1)
        return self._attention(graph, s, t, edge_attr)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Each head's Θx through its part of the linear head, [n, H, C]."""
        weight = weight_of(self.lin).view(self.heads, self.out_channels, -1)  # [H, F, F_in]
        per_head = head_by_head(self, head, x)
        matrix = per_head @ weight  # [H, C, F_in]
        messages = matmul(x, matrix.flatten(0, 1)).view(-1, self.heads, per_head.shape[1])
        return Sent(self.coefficients(graph, x, inputs.get("edge_attr")), messages)

    def _attention(self, graph: Graph, s: Tensor, t: Tensor, edge_attr: Tensor | None) -> Coefficients:
        drop = self.dropout if self.training else 0.0
        if edge_attr is None or self.lin_edge is None:  # without edge_dim PyG passes attributes over
            return Attention(graph, s, t, self.negative_slope, self.add_self_loops, drop)
        extra = with_loops(graph, edge_attr, "GATConv", self.added_attr, self.fill_value, self._edge_term)
        scores = EdgeScores(graph, s, t, self.negative_slope, self.add_self_loops, extra)
        return ScoredAttention(scores, s.dtype, drop)

    def _edge_term(self, attributes: Tensor) -> Tensor:
        """What attributes [·, D] add to scores, [·, H]."""
        features: Tensor = self.lin_edge(attributes).view(-1, self.heads, self.out_channels)
        weights: Tensor = self.att_edge
        return (features * weights).sum(-1)


def refuse_attention_weights(conv: CorrectedConv, asked: bool | None) -> None:
    """Weights of a random view are nobody's."""
    if asked is not None:
        raise ValueError(
            f"{type(conv).__name__} on a Graph or View takes no return_attention_weights; leave it out, or pass a "
            "plain edge_index"
        )


def head_by_head(conv: Any, head: Tensor | None, x: Tensor) -> Tensor:
    """What the linear head [C, ·] does to each attention head of a layer, [H, C, F_out]."""
    if head is None:
        head = torch.eye(conv.out_channels * (conv.heads if conv.concat else 1), dtype=x.dtype, device=x.device)
    if not conv.concat:
        return head.expand(int(conv.heads), -1, -1) / float(conv.heads)
    return head.view(len(head), conv.heads, conv.out_channels).transpose(0, 1)
