"""AGNNConv: attention by the cosine of features."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import normalize

from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, ScoredAttention, Sent
from rade.moments.attention.scores import Attributes, FeatureScores
from rade.nn.base import CorrectedConv
from rade.nn.linear import dense, matmul


class AGNNConv(CorrectedConv, pyg.AGNNConv):
    """PyG's AGNNConv, softmax of β cos(x_i, x_j) over x_j, corrected on views.

    Exact on small graphs; on larger ones sums over non-neighbors are the paper's estimate from a sample of them.
    """

    hears_everybody = True  # scores are compared within the whole graph

    def forward(self, x: Tensor, edge_index: Tensor | Adjacency) -> Tensor:
        """x [n, F_in] (dense or CSR) → the same shape; ``edge_index`` a tensor or an `Adjacency`."""
        if not isinstance(edge_index, Adjacency):
            return cast(Tensor, super().forward(x, edge_index))
        x = dense(x)
        return self.send(edge_index, self.coefficients(edge_index.graph, x), x[:, None]).squeeze(1)

    def coefficients(self, graph: Graph, x: Tensor) -> Coefficients:
        """Scores of all pairs, on demand."""
        unit = normalize(dense(x), p=2.0, dim=-1)[:, None]
        scores = FeatureScores(graph, unit, unit, self._score, self.add_self_loops, Attributes(), self._matrix)
        return ScoredAttention(scores, x.dtype)

    def sent(self, head: Tensor | None, graph: Graph, x: Tensor, **inputs: Any) -> Sent:
        """x through the head."""
        return Sent(self.coefficients(graph, x), (dense(x) if head is None else matmul(x, head))[:, None])

    def _score(self, query: Tensor, key: Tensor) -> Tensor:
        factor: Tensor = self.beta
        return factor * (query * key).sum(-1)

    def _matrix(self, query: Tensor, key: Tensor) -> Tensor:
        factor: Tensor = self.beta
        return factor * torch.einsum("nhc,shc->nhs", query, key)
