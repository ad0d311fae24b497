"""Sparse patterns and the two products on them that everything else is made of, with derivatives of any order."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rade.runtime import Recall

with warnings.catch_warnings():  # torch announces its CSR support once per process: take it here, in silence
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a sparse matrix is not zero: CSR by target row, with the way to its transpose.

    ``transposition`` reorders values for the transpose: ``values_T = values[transposition]``. A symmetric pattern is
    its own transpose, so the backward pass needs neither a sort nor a second structure; others make theirs when asked.
    """

    rowptr: Tensor  # [rows + 1]
    source: Tensor  # [E] column of each entry, ascending within a row
    columns: int
    transposition: Tensor  # [E]
    symmetric: bool = True
    rows: int = field(init=False)
    size: int = field(init=False)  # number of entries

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rowptr.numel() - 1)
        object.__setattr__(self, "size", self.source.numel())

    @staticmethod
    def of_rows(row: Tensor, source: Tensor, nodes: int, transposition: Tensor) -> Pattern:
        """A symmetric pattern by the row of each entry, ascending."""
        found = Pattern(row_pointer(row, nodes), source, nodes, transposition)
        vars(found)["target"] = row  # what it would find itself
        return found

    @staticmethod
    def of_pairs(target: Tensor, source: Tensor, nodes: int, directed: bool) -> Pattern:
        """Pairs sorted by target, then source; of unordered ones, target < source, both directions."""
        if directed:
            return Pattern.general(row_pointer(target, nodes), source, nodes)
        # In a row, entries left of the diagonal come first: those of pairs whose target is smaller.
        row, column = torch.cat([source, target]), torch.cat([target, source])
        order = stable_order(row, nodes)
        back = places(order, order.numel()).roll(target.numel()).index_select(0, order)
        return Pattern.of_rows(row.index_select(0, order), column.index_select(0, order), nodes, back)

    @cached_property
    def target(self) -> Tensor:
        """Row of each entry, [E]."""
        return torch.repeat_interleave(self.lengths, output_size=self.size)

    @cached_property
    def lengths(self) -> Tensor:
        """Number of entries of each row, [rows]."""
        return self.rowptr.diff()

    @cached_property
    def narrow(self) -> tuple[Tensor, Tensor]:
        """Row pointer and sources as the libraries under torch want them, which would convert int64 on every call."""
        if max(self.size, self.rows, self.columns) >= 2**31:
            return self.rowptr, self.source
        return self.rowptr.int(), self.source.int()

    def matrix(self, values: Tensor) -> Tensor:
        """A CSR matrix with these values on the pattern."""
        return torch.sparse_csr_tensor(*self.narrow, values, (self.rows, self.columns), check_invariants=False)

    @cached_property
    def transpose(self) -> Pattern:
        """The pattern of the transpose."""
        if self.symmetric:
            return self
        order = self.transposition
        rowptr, source = row_pointer(self.source[order], self.columns), self.target[order]
        found = Pattern(rowptr, source, self.rows, places(order, self.size), symmetric=False)
        vars(found)["transpose"] = self
        return found

    def transposed_values(self, values: Tensor) -> Tensor:
        """The values in the order of the transpose; those of a constant matrix are reordered once and kept."""
        if values.requires_grad:
            return values.index_select(0, self.transposition)
        return self._reordered.get((values,), None, lambda: values.index_select(0, self.transposition))

    @cached_property
    def _reordered(self) -> Recall[Tensor]:
        return Recall()

    @cached_property
    def _blocks(self) -> Recall[tuple[Pattern, Tensor]]:
        return Recall()

    def row_sum(self, values: Tensor) -> Tensor:
        """Σ_j values_ij, [E, ...] → [rows, ...]."""
        return values.new_zeros(self.rows, *values.shape[1:]).index_add_(0, self.target, values)

    def block(self, rows: Tensor, columns: Tensor | None = None) -> tuple[Pattern, Tensor]:
        """The entries of some rows [k] as a pattern of k rows, and which of all entries they are; found once.

        columns: [m] those that there are, for a pattern of m columns; entries of the rows must lie in these.
        """

        def build() -> tuple[Pattern, Tensor]:
            rowptr, entries = entries_of_rows(self.rowptr, rows)
            source = self.source[entries]
            if columns is None:
                return Pattern.general(rowptr, source, self.columns), entries
            return Pattern.general(rowptr, places(columns, self.columns)[source], columns.numel()), entries

        return self._blocks.get((rows, columns), None, build)

    @staticmethod
    def general(rowptr: Tensor, source: Tensor, columns: int) -> Pattern:
        """A pattern that need not be symmetric."""
        return Pattern(rowptr, source, columns, stable_order(source, columns), symmetric=False)


def is_sparse(x: Tensor) -> bool:
    """Whether a matrix is in CSR form."""
    return x.layout == torch.sparse_csr


def row_pointer(row: Tensor, rows: int) -> Tensor:
    """CSR row pointer of the row index of every entry, [E] in order → [rows + 1]."""
    return torch._convert_indices_from_coo_to_csr(row, rows)


def stable_order(numbers: Tensor, count: int) -> Tensor:
    """The stable order of integers from 0 to ``count`` − 1: the fewer bits, the faster; of 16 numpy counts."""
    if count > 2**15 or numbers.device.type != "cpu":
        return torch.argsort(numbers.int() if count < 2**31 else numbers, stable=True)
    return torch.from_numpy(np.argsort(numbers.numpy().astype(np.int16), kind="stable"))


def places(chosen: Tensor, count: int) -> Tensor:
    """The place of each of ``count`` numbers among those chosen [k], −1 where it is none of them, [count]."""
    return chosen.new_full((count,), -1).scatter_(0, chosen, torch.arange(chosen.numel(), device=chosen.device))


def entries_of_rows(rowptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The row pointer of some rows of a CSR matrix, [k + 1], and the positions of their entries."""
    counts = rowptr.diff()[rows]
    pointer = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    shift = torch.repeat_interleave(rowptr[:-1][rows] - pointer[:-1], counts)
    return pointer, torch.arange(shift.numel(), device=shift.device) + shift


def consecutive(load: Tensor, most: int) -> list[slice]:
    """Groups of consecutive rows that carry about ``most`` together, by the load of each."""
    turns = (torch.div(load.cumsum(0), most, rounding_mode="floor").diff() > 0).nonzero().squeeze(1) + 1
    return [slice(*ends) for ends in pairwise([0, *turns.tolist(), load.numel()])]


def rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """Rows of a dense or sparse CSR matrix, in the same layout: x[rows]."""
    if x.layout is not torch.sparse_csr:
        return x.index_select(0, rows)
    pointer, entries = entries_of_rows(x.crow_indices(), rows)
    shape = (rows.numel(), x.shape[1])
    column, values = x.col_indices()[entries], x.values()[entries]
    return torch.sparse_csr_tensor(pointer, column, values, shape, check_invariants=False)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Mixed precision off: products of sparse matrices know none, and corrections cancel, which bfloat16 cannot."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


class _Product(torch.autograd.Function):
    """y_i = Σ_e values_e x_source(e) over the entries e of row i."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, x)
        out = x.new_empty(pattern.rows, x.shape[1])
        return torch.addmm(out, pattern.matrix(values), x, beta=0.0, out=out)  # `@` would clear and copy its result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (values, x), pattern = ctx.saved_tensors, ctx.pattern
        needs_values, needs_x, _ = ctx.needs_input_grad
        with without_autocast(gradient.device):
            to_values = at_entries(gradient, x, pattern) if needs_values else None
            to_x = product(pattern.transposed_values(values), gradient, pattern.transpose) if needs_x else None
        return to_values, to_x, None


class _AtEntries(torch.autograd.Function):
    """v_e = ⟨a_target(e), b_source(e)⟩ for every entry e of the pattern."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(a, b)
        matrix = pattern.matrix(a.new_zeros(pattern.size))
        out: Tensor = torch.sparse.sampled_addmm(matrix, a.contiguous(), b.contiguous().t(), beta=0.0).values()
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (a, b), pattern = ctx.saved_tensors, ctx.pattern
        needs_a, needs_b, _ = ctx.needs_input_grad
        with without_autocast(gradient.device):
            to_a = product(gradient, b, pattern) if needs_a else None
            to_b = product(gradient.index_select(0, pattern.transposition), a, pattern.transpose) if needs_b else None
        return to_a, to_b, None


# Sparse matrix times dense: values [E], x [columns, F] → [rows, F]; both differentiable to any order.
product: Callable[[Tensor, Tensor, Pattern], Tensor] = _Product.apply
# Inner products ⟨a_i, b_j⟩ at the entries of the pattern only: [rows, F], [columns, F] → [E].
at_entries: Callable[[Tensor, Tensor, Pattern], Tensor] = _AtEntries.apply
