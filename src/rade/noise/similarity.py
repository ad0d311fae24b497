"""How alike the ends of pairs of nodes are: evidence that an edge is real."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rade.graph.graph import Graph

if TYPE_CHECKING:
    import scipy.sparse as sp

CHUNK = 20_000  # pairs at a time: the features of both ends are gathered


class Similarity(ABC):
    """A symmetric function of pairs of nodes that is larger for pairs that real edges join.

    Spurious edges must be as similar as random pairs are: nothing that the edge itself brings about may count.
    """

    name: str

    @abstractmethod
    def of(self, graph: Graph, pairs: Tensor) -> Tensor:
        """The similarity of pairs [2, P] of nodes of an observed graph, [P]."""


@dataclass(frozen=True, eq=False)
class Features(Similarity):
    """The cosine of the features of both ends, [n, F], dense or sparse CSR."""

    x: Tensor
    name: str = "features"

    def of(self, graph: Graph, pairs: Tensor) -> Tensor:
        return cosine(self.x, pairs)


@dataclass(frozen=True)
class CommonNeighbors(Similarity):
    """The cosine of the ends' neighborhoods, c_ij/√(d_i d_j) with c common neighbors: needs no features at all.

    The edge itself is no common neighbor of its ends. It counts in their degrees, though, so that where those are low
    spurious edges are a little less similar than random pairs, and the share of noise by similarities is too large.
    """

    name: str = "common neighbors"

    def of(self, graph: Graph, pairs: Tensor) -> Tensor:
        ones = torch.ones(graph.pattern.size, device=graph.device)
        return cosine(graph.pattern.matrix(ones), pairs)


def cosine(x: Tensor, pairs: Tensor) -> Tensor:
    """Cosine of the features of both ends, [P]; x [n, F] is dense or sparse CSR, pairs [2, P]; 0 for empty rows."""
    if x.layout != torch.strided:
        return _sparse_cosine(x, pairs)
    unit = torch.nn.functional.normalize(x.float(), dim=1)
    return torch.cat([(unit[a] * unit[b]).sum(1) for a, b in torch.split(pairs, CHUNK, 1)])


def partners(graph: Graph, each: int, generator: torch.Generator | None) -> Tensor:
    """``each`` random other nodes of the same graph for every node that has any, with repetition, [2, P]."""
    first = (graph.size > 1).nonzero().squeeze(1).repeat_interleave(each)
    size, start = graph.size[first], graph.ptr[graph.batch[first]]
    step = torch.rand(len(first), generator=generator, dtype=torch.double, device=graph.device) * (size - 1)
    other = (first - start + 1 + torch.minimum(step.long(), size - 2)) % size + start
    return torch.stack([first, other])


def _sparse_cosine(x: Tensor, pairs: Tensor) -> Tensor:
    """The same by scipy, which gathers rows of a sparse matrix without the zeros."""
    import numpy as np

    unit = _unit_rows(x)
    chunks = [chunk.numpy() for chunk in torch.split(pairs.cpu(), CHUNK, 1)]
    found = [np.asarray(unit[a].multiply(unit[b]).sum(1)).ravel() for a, b in chunks]
    return torch.from_numpy(np.concatenate(found)).float().to(pairs.device)


def _unit_rows(x: Tensor) -> sp.csr_matrix:
    """A CSR tensor as a matrix of scipy whose rows have length 1, or 0."""
    import numpy as np
    import scipy.sparse as sp

    values, columns, rows = (part.cpu().numpy() for part in (x.values().double(), x.col_indices(), x.crow_indices()))
    matrix = sp.csr_matrix((values, columns, rows), shape=tuple(x.shape))
    norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel())
    return (sp.diags(1.0 / np.where(norm > 0, norm, 1.0)) @ matrix).tocsr()
