"""An inference operator as a network of conductors: symmetric weights, known by what they do to columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from rade.correction import shared_aggregation
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments import Coefficients, Sum

# Two products that should be equal may differ by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Network:
    """Symmetric weights W ≥ 0 between the nodes of a graph; loops count in the degree and carry no current."""

    adjacency: Adjacency
    apply: Callable[[Tensor], Tensor]  # W x, [n, k] → [n, k]
    degree: Tensor  # W 1, [n]

    @property
    def graph(self) -> Graph:
        """The clean graph under it."""
        return self.adjacency.graph

    @property
    def volume(self) -> Tensor:
        """1ᵀ W 1 of each node's graph, [n] (broadcast for one graph)."""
        return self.graph.per_node(self.graph.pool(self.degree))

    def laplacian(self, x: Tensor) -> Tensor:
        """(diag(W 1) − W) x, [n, k]."""
        return self.degree[:, None] * x - self.apply(x)


def network(adjacency: Adjacency, coefficients: Coefficients) -> Network:
    """The network of an aggregator over an adjacency."""
    apply = shared_aggregation(adjacency, coefficients).apply
    ones = torch.ones(adjacency.graph.num_nodes, 1, dtype=coefficients.dtype)
    return Network(adjacency, apply, apply(ones).squeeze(1))


def conductors(adjacency: Adjacency, coefficients: Coefficients) -> Coefficients:
    """The coefficients themselves where i hears j as j hears i; else those of the sum over the same adjacency.

    Means and attention weigh by the target alone: what flows one way need not flow back, and no resistance exists.
    """
    one_head = coefficients.clean().edges.dim() == 1
    if one_head and _symmetric(shared_aggregation(adjacency, coefficients).apply, coefficients):
        return coefficients
    return Sum(coefficients.graph, coefficients.dtype)


def _symmetric(apply: Callable[[Tensor], Tensor], coefficients: Coefficients) -> bool:
    """xᵀ W y = yᵀ W x for random x and y."""
    draws = torch.Generator().manual_seed(0)
    pair = torch.randn(coefficients.graph.num_nodes, 2, dtype=coefficients.dtype, generator=draws)
    products = pair.t() @ apply(pair)
    scale = pair.norm(dim=0).prod()
    return bool((products[0, 1] - products[1, 0]).abs() <= ROUNDING * scale)


def matrix(graph: Graph) -> csr_matrix:
    """The clean adjacency for SciPy."""
    pattern = graph.pattern
    values = np.ones(pattern.size, dtype=np.int8)
    return csr_matrix((values, pattern.source.numpy(), pattern.rowptr.numpy()), shape=(pattern.rows, pattern.columns))


def components(graph: Graph) -> Tensor:
    """The connected component of each node, [n]."""
    return torch.from_numpy(connected_components(matrix(graph), directed=False)[1]).long()


def largest_component(graph: Graph) -> Tensor:
    """The nodes of the largest connected component, ascending."""
    of = components(graph)
    return (of == torch.bincount(of).argmax()).nonzero().squeeze(1)


def induced(graph: Graph, nodes: Tensor) -> Graph:
    """The part of a graph between some nodes, as one graph of its own."""
    place = torch.full((graph.num_nodes,), -1)
    place[nodes] = torch.arange(nodes.numel())
    edges = place[graph.edge_index]
    return Graph.from_edge_index(edges[:, (edges >= 0).all(0)], nodes.numel())
