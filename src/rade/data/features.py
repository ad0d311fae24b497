"""Node features: sparse where that pays, rows normalised where the protocol says so."""

import warnings

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rade.graph.sparse import rows_of as take_rows

__all__ = ["choose_layout", "csr", "row_normalised", "take_rows"]

# A CSR product costs time in proportion to the density and meets the dense product at about 0.11
# (n = 19,717, 500 features, 512 outputs, one core), so features below 0.1 stay sparse.
SPARSE_BELOW = 0.1


def choose_layout(matrix: sp.spmatrix) -> Tensor:
    """The features as float32 [n, F]: sparse CSR if fewer than a tenth of the entries are set, else dense."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rows, columns = matrix.shape
    if matrix.nnz >= SPARSE_BELOW * rows * columns:
        return torch.from_numpy(matrix.toarray())
    pointers, indices = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr(pointers, indices, torch.from_numpy(matrix.data), (rows, columns))


def row_normalised(matrix: sp.spmatrix) -> sp.csr_matrix:
    """Rows divided by their sum; an empty row stays empty."""
    matrix = sp.csr_matrix(matrix, dtype=np.float32)
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums != 0)
    return sp.csr_matrix(sp.diags(inverse.astype(np.float32)) @ matrix)


def csr(pointers: Tensor, indices: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor; PyTorch's once-per-process note that the layout is in beta is not the user's concern."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointers, indices, values, size, check_invariants=False)
