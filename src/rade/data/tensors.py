"""A data set as plain tensors, as readers and generators return it: clean edges, features, graphs end to end."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]

# A CSR product costs time in proportion to the density and meets the dense product at about 0.11
# (n = 19,717, 500 features, 512 outputs, one core), so features below 0.1 stay sparse.
SPARSE_BELOW = 0.1


@dataclass(frozen=True)
class Split:
    """Indices [k] of nodes (node level) or graphs (graph level)."""

    train: Tensor
    val: Tensor
    test: Tensor


@dataclass(frozen=True)
class Tables:
    """Graphs laid end to end; a node-level data set is one graph.

    Integer tensors may be stored in a narrow type; ``GraphList`` and ``node_data`` widen them.
    """

    x: Tensor  # [N, F], dense or sparse CSR
    edge_index: Tensor  # [2, E], numbered within each graph, sorted, both directions
    y: Tensor  # [N] node classes, [G] graph classes, or [G, T] tasks
    node_ptr: Tensor  # [G + 1]
    edge_ptr: Tensor  # [G + 1]
    splits: tuple[Split, ...] = ()  # the public or official ones, if any

    def density(self) -> float:
        """Pooled density D = Σ|E_g| / Σ n_g(n_g − 1)/2, |E_g| undirected."""
        nodes = self.node_ptr.diff()
        pairs = int((nodes * (nodes - 1)).sum())
        # A data set of isolated single nodes has no pairs and no edges: its density is 0, not 0/0.
        return self.edge_index.size(1) / pairs if pairs else 0.0


def one_graph(x: Tensor, edge_index: Tensor, y: Tensor, *splits: Split) -> Tables:
    """The tensors of a node-level data set."""
    return Tables(x, edge_index, y, torch.tensor([0, y.size(0)]), torch.tensor([0, edge_index.size(1)]), splits)


def clean_edges(source: IntArray, target: IntArray, num_nodes: int) -> Tensor:
    """The undirected simple graph of some pairs, sorted: edge_index [2, 2|E|]."""
    proper = source != target
    return both_directions(source[proper], target[proper], num_nodes)


def both_directions(source: IntArray, target: IntArray, num_nodes: int) -> Tensor:
    """Edges and their reverse edges, sorted, without duplicates: edge_index [2, E]."""
    # One int64 key per directed edge sorts and merges in a single pass; n² stays below 2⁶³ for n up to 3·10⁹.
    keys = np.concatenate([source * num_nodes + target, target * num_nodes + source])
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]]
    return torch.from_numpy(np.stack(np.divmod(keys, max(num_nodes, 1))))


def edge_slices(edge_index: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted edges of a disjoint union, renumbered within each graph, and where each graph's edges begin."""
    graph = torch.searchsorted(node_ptr, edge_index[0], right=True) - 1
    counts = torch.bincount(graph, minlength=node_ptr.numel() - 1)
    return edge_index - node_ptr[graph], pointer(counts)


def pointer(counts: Tensor) -> Tensor:
    """Where each of several consecutive pieces begins, and the end of the last: [len(counts) + 1]."""
    return torch.cat([counts.new_zeros(1, dtype=torch.long), counts.long().cumsum(0)])


def choose_layout(matrix: sp.spmatrix) -> Tensor:
    """The features as float32 [n, F]: sparse CSR if fewer than a tenth of the entries are set, else dense."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rows, columns = matrix.shape
    if matrix.nnz >= SPARSE_BELOW * rows * columns:
        return torch.from_numpy(matrix.toarray())
    pointers, indices = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")  # not the user's concern
        return torch.sparse_csr_tensor(pointers, indices, values, (rows, columns), check_invariants=False)


def row_normalised(matrix: sp.spmatrix) -> sp.csr_matrix:
    """Rows divided by their sum; an empty row stays empty."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
    return sp.csr_matrix(sp.diags(inverse.astype(np.float32)) @ matrix)
