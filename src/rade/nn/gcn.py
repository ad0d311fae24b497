"""GCNConv and SGConv: symmetric degree normalisation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sent
from rade.nn.base import CorrectedConv, pushed
from rade.nn.hops import clean_hops, hops, symmetric
from rade.nn.linear import lean, linear_of_sums, matmul
from rade.nn.plain import weight_of


class GCNConv(CorrectedConv, pyg.GCNConv):
    """PyG's GCNConv, a_i = Σ_j m_j/√(d_i d_j) with m = Θx, corrected on views (Eq. 6, 10; Appendix C.II)."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] (dense or CSR) → [n, F_out]; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        x = lean(x)
        out = self.send_mapped(self.lin, edge_index, self.coefficients(edge_index.graph, x, edge_weight), x)
        return out if self.bias is None else out + self.bias

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j), or plain sums for ``normalize=False``."""
        # With edge weights PyG's improved loops weigh 2 as documented, without them see `improved_loop`.
        improved = improved_loop() if edge_weight is None else 2.0
        loop = (improved if self.improved else 1.0) if self.add_self_loops else 0.0
        return symmetric(graph, x, edge_weight, loop, self.normalize, self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """Θx through the head."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        return Sent(coefficients, matmul(x, pushed(head, weight_of(self.lin))))


@lru_cache(maxsize=1)
def improved_loop() -> float:
    """The self-loop weight of ``improved=True`` in the installed PyG, read off a single edge.

    Documented is 2, but without edge weights PyG 2.8.1 adds loops of weight 1; a wrapped model must agree with it.
    """
    edge = torch.tensor([[0, 1], [1, 0]])
    index, weight = gcn_norm(edge, None, 2, improved=True)
    share = float(weight[index[0] == index[1]][0])
    return float(round(share / (1.0 - share)))  # loops weigh 1 or 2, read in single precision


class SGConv(CorrectedConv, pyg.SGConv):
    """PyG's SGConv: K propagation steps and one linear map; every step is corrected."""

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency, edge_weight: Tensor | None = None) -> Tensor:
        """x [n, F_in] → [n, F_out]. The linear map comes first: it commutes with the steps and makes them narrower."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index, edge_weight))
        coefficients = self.coefficients(edge_index.graph, x, edge_weight)
        return linear_of_sums(
            self.lin, lean(x), lambda h: hops(self, edge_index, coefficients, h, self.K)[-1], sums_first=False
        )

    def coefficients(self, graph: Graph, x: Tensor, edge_weight: Tensor | None = None) -> Coefficients:
        """e_ij/√(d_i d_j)."""
        return symmetric(graph, x, edge_weight, float(self.add_self_loops), added=self.added_weight)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """What the last of the K steps sends."""
        coefficients = self.coefficients(graph, x, inputs.get("edge_weight"))
        messages = matmul(x, pushed(head, weight_of(self.lin)))
        return Sent(coefficients, clean_hops(graph, coefficients, messages, self.K - 1))
