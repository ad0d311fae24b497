"""GATConv: attention."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Attention, Coefficients, Sent
from rade.nn.base import CorrectedConv, own_linear, sums_first
from rade.nn.linear import lean, linear, matmul


class GATConv(CorrectedConv, pyg.GATConv):
    """PyG's GATConv, multi-head, with or without self-loops, corrected on views (Appendix C.III)."""

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
        if edge_attr is not None or return_attention_weights is not None:
            raise ValueError(
                "GATConv on a Graph or View takes neither edge_attr (added edges have none) nor "
                "return_attention_weights; leave them out, or pass a plain edge_index"
            )
        x = lean(x)
        out = self._attended(x, edge_index)
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out if self.res is None else out + own_linear(self.res, edge_index, x)
        return out if self.bias is None else out + self.bias

    def _attended(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """[k, H, F_out]: Θx is formed for everybody, or for few rows from sums of x itself, per head."""
        if self.heads == 1 and sums_first(adjacency, x, self.lin):
            sums = self.send(adjacency, self.coefficients(adjacency.graph, x), x[:, None])
            return linear(self.lin, sums.flatten(0, 1))[:, None]
        h = linear(self.lin, x).view(-1, self.heads, self.out_channels)
        s, t = (h * self.att_src).sum(-1), (h * self.att_dst).sum(-1)
        return self.send(adjacency, self._attention(adjacency.graph, s, t), h)

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """Scores a·Θx without forming Θx."""
        weight = self.lin.weight.view(self.heads, self.out_channels, -1)
        vectors = [(att.view(self.heads, 1, -1) @ weight).squeeze(1) for att in (self.att_src, self.att_dst)]
        s, t = torch.split(matmul(x, torch.cat(vectors)), self.heads, dim=1)
        return self._attention(graph, s, t)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Each head's Θx through its part of the linear head, [n, H, C]."""
        weight = self.lin.weight.view(self.heads, self.out_channels, -1)  # [H, F, F_in]
        if head is None:
            head = torch.eye(self.out_channels * (self.heads if self.concat else 1), dtype=x.dtype, device=x.device)
        if self.concat:
            per_head = head.view(len(head), self.heads, self.out_channels).transpose(0, 1)  # [H, C, F]
        else:
            per_head = head.expand(self.heads, -1, -1) / self.heads
        matrix = per_head @ weight  # [H, C, F_in]
        messages = matmul(x, matrix.flatten(0, 1)).view(-1, self.heads, len(head))
        return Sent(self.coefficients(graph, x), messages)

    def _attention(self, graph: Graph, s: Tensor, t: Tensor) -> Attention:
        drop = self.dropout if self.training else 0.0
        return Attention(graph, s, t, self.negative_slope, self.add_self_loops, drop)
