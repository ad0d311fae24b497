"""GINConv: sum aggregation and an MLP."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.graph.sparse import is_sparse
from rade.moments import Coefficients, Sent, Sum
from rade.nn.base import CorrectedConv, linear_part, sums_first
from rade.nn.linear import dense, lean, linear, matmul
from rade.nn.plain import has_hooks, is_plain


class GINConv(CorrectedConv, pyg.GINConv):
    """PyG's GINConv, nn((1+ε) x_i + Σ_j x_j), corrected on views (Appendix C.I)."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, size: Any = None) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, size))
        x, coefficients = lean(x), self.coefficients(edge_index.graph, x)
        first, rest = self._split(x)
        if first is None or sums_first(edge_index, x, first):
            x = dense(x)
            return cast(Tensor, self.nn(self.send(edge_index, coefficients, x) + (1 + self.eps) * edge_index.own(x)))
        # The first linear layer commutes with the sum; applied before it, messages are narrower.
        h = linear(first, x, bias=False)
        out = self.send(edge_index, coefficients, h) + (1 + self.eps) * edge_index.own(h)
        return cast(Tensor, rest(out if first.bias is None else out + first.bias))

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """α_ij = 1."""
        return Sum(graph, x.dtype)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """x through the linear part of the MLP and the head: W_head W_2 W_1 x."""
        matrix = linear_part(head, self.nn)
        return Sent(self.coefficients(graph, x), dense(x) if matrix is None else matmul(x, matrix))

    def _split(self, x: Tensor) -> tuple[Any, Any]:
        """The leading linear layer, if it pays to apply it before the sum, and the layers after it."""
        layers = list(self.nn) if _is_chain(self.nn) else [self.nn]
        first = layers[0] if layers else None
        pays = isinstance(first, torch.nn.Linear) and (is_sparse(x) or first.out_features < first.in_features)
        if not pays or not is_plain(first):
            return None, self.nn
        return first, self.nn[1:] if len(layers) > 1 else torch.nn.Identity()


def _is_chain(module: torch.nn.Module) -> bool:
    """Whether a module does nothing but call its parts in order: a subclass may, and hooks do."""
    return type(module) is torch.nn.Sequential and "forward" not in vars(module) and not has_hooks(module)
