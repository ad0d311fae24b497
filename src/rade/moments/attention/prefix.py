"""Sums over the first values of a sorted cell, for many queries at once: products of small blocks and a carry."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

VALUES = 24  # values per block; a query meets those of its own block one by one
QUERIES = 32  # queries of one block that share a matrix product
BUDGET = 2**25  # numbers per temporary (256 MB in float64); wider inputs go in slices, recomputed in the backward pass


# Sorted values stand in cells, a cell is cut into blocks of VALUES (here 4); a query asks for the first values of a
# cell, those below its threshold:
#
#     cell 0                               cell 1
#     | v v v v | v v v v | v v            | v v v
#     '---------'     ^ query: first 6     '  ^ query: first 1
#      one state      '-'- masked product     '- masked product, no block before it
#
# Blocks before the query's own arrive as one state, Σ_j key_jk x_j [K, F], added up along the cell. The query's own
# block [VALUES, F] is multiplied by Σ_k c_qk key_jk, which is zero for values at or above the threshold.
class ThresholdSums:
    """Sums over the values below a threshold, and over whole cells, with K keys per value.

        below_q = Σ_{j < below_q in cell asked_q} Σ_k c_qk key_jk x_j,    total_ck = Σ_{j in cell c} key_jk x_j.

    n·F·(block + K) multiplications, no list of pairs, autograd of any order in keys, coefficients and x.
    """

    def __init__(self, cell: Tensor, rank: Tensor, keys: Tensor, count: Tensor, asked: Tensor, below: Tensor) -> None:
        """Value j [R] is number ``rank`` of its cell, ``count`` [C] in each; query q [Q] asks for the first `below`."""
        blocks = (count + VALUES - 1) // VALUES  # of each cell
        first = blocks.cumsum(0) - blocks
        self.cells, self.blocks = count.numel(), int(blocks.sum())
        self.cell_of_block = torch.repeat_interleave(blocks, output_size=self.blocks)
        self.first = first[self.cell_of_block]  # the first block of each block's cell
        self.value_slot = (first[cell] + rank // VALUES) * VALUES + rank % VALUES
        self.keys = _scatter(keys, self.value_slot, (self.blocks, VALUES))  # [blocks, VALUES, K]
        # A threshold behind the last value of a full block stays with that block.
        home = first[asked] + torch.minimum(below // VALUES, blocks[asked] - 1)
        batch, self.query_slot = _batches(home)
        self.shape = (batch, QUERIES)
        self.home = home.new_zeros(batch).index_copy(0, self.query_slot // QUERIES, home)
        inside = below - (home - first[asked]) * VALUES
        self.inside = _scatter(inside[:, None], self.query_slot, self.shape)  # [batches, QUERIES, 1]

    def prepare(self, coefficient: Tensor, dtype: torch.dtype) -> Prepared:
        """Coefficients [Q, K] as what multiplies the values of a query's block, and its state."""
        far = _scatter(coefficient, self.query_slot, self.shape)
        near = far @ self.keys.index_select(0, self.home).mT
        near = torch.where(self.inside > torch.arange(VALUES, device=near.device), near, 0.0)
        return Prepared(near.to(dtype), far.to(dtype), self.keys.to(dtype))

    def apply(self, prepared: Prepared, x: Tensor) -> tuple[Tensor, Tensor]:
        """The sums below each query, [Q, F], and over each cell, [C, K, F], of x [R, F]."""
        width = max(1, BUDGET // max(1, self.shape[0] * QUERIES))
        if x.shape[1] <= width:
            return self._apply(prepared.near, prepared.far, prepared.keys, x)
        operands = (prepared.near, prepared.far, prepared.keys)
        parts = [checkpoint(self._apply, *operands, part, use_reentrant=False) for part in torch.split(x, width, 1)]
        below, total = zip(*parts)
        return torch.cat(below, 1), torch.cat(total, 2)

    def _apply(self, near: Tensor, far: Tensor, keys: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        values = _scatter(x, self.value_slot, (self.blocks, VALUES))  # [blocks, VALUES, F]
        states = keys.mT @ values  # [blocks, K, F]
        total = states.new_zeros(self.cells, *states.shape[1:]).index_add(0, self.cell_of_block, states)
        # In double precision, so that what other cells hold may be added and taken off again.
        upto = states.double().cumsum(0) - states
        before = (upto - upto.index_select(0, self.first)).to(x.dtype)
        sums = torch.baddbmm(near @ values.index_select(0, self.home), far, before.index_select(0, self.home))
        return sums.flatten(0, 1).index_select(0, self.query_slot), total


@dataclass(frozen=True, eq=False)
class Prepared:
    """What multiplies values [batches, QUERIES, VALUES] and states [batches, QUERIES, K], and the keys."""

    near: Tensor
    far: Tensor
    keys: Tensor


def _batches(block: Tensor) -> tuple[int, Tensor]:
    """Number of batches, and the slot of each query: at most QUERIES to a batch, all of one block."""
    order = block.argsort(stable=True)
    ordered, index = block[order], torch.arange(block.numel(), device=block.device)
    starts = torch.where(ordered == ordered.roll(1), 0, index).cummax(0).values
    slot = (index - starts) % QUERIES
    batch = (slot == 0).cumsum(0) - 1
    slots = torch.empty_like(slot).index_copy_(0, order, batch * QUERIES + slot)
    return (int(batch[-1]) + 1 if block.numel() else 0), slots


def _scatter(rows: Tensor, slot: Tensor, shape: tuple[int, int]) -> Tensor:
    """Rows [R, F] at their slots of a zero tensor [*shape, F]."""
    return rows.new_zeros(shape[0] * shape[1], rows.shape[1]).index_copy(0, slot, rows).view(*shape, rows.shape[1])
