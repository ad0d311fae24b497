"""Sums of decaying exponentials on both sides of a threshold, in linear time: the engine of the complement sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

VALUES = 24  # values per block of the sorted order; a query meets those of its own block one by one
QUERIES = 32  # queries of one block that share a matrix product
BUDGET = 2**25  # numbers per temporary (256 MB in float64); wider inputs go in slices, recomputed in the backward pass
EXPONENT = 340.0  # the product of two factors up to exp(340) is finite in float64


class ThresholdSums:
    """Two-sided sums of exponentials over the sorted values v_j of a segment, for queries (θ_q, segment).

        out_q = Σ_{v_j < θ_q} Σ_{k < left} c_qk exp(ρ_k (v_j − o_q)) x_j  +  Σ_{v_j ≥ θ_q} Σ_{k ≥ left} (the same),

    with rates ρ_k ≥ 0 on the left and ≤ 0 on the right: every term decays away from the threshold. The origin o_q is
    the middle of the block of sorted values around θ_q.

    Inside its block a query's sum is a dense masked product; what lies before (behind) the block arrives as one state
    [rates, F], carried on by a scan that only ever decays. Hence n·F·(block + rates) multiplications, no overflow for
    any range of values, no cancellation between segments, and ordinary autograd of any order in values, coefficients
    and x. Thresholds and origins are constants: in the callers' formulas they cancel.
    """

    def __init__(
        self, value: Tensor, segment: Tensor, threshold: Tensor, target: Tensor, rates: Tensor, left: int
    ) -> None:
        """Sort `value` [R] of `segment` [R] with `threshold` [Q], asked of the segment of value number `target` [Q]."""
        self.left, queries = left, threshold.numel()
        constant, threshold = value.detach(), threshold.detach()
        low, high = _range(constant, segment)
        self.threshold = threshold.clamp(low[target], high[target])  # within the range of the values, [Q]

        # Queries come first and sorts are stable: a value equal to the threshold counts as above it.
        order = torch.cat([threshold, constant]).argsort(stable=True)
        group = torch.cat([segment[target], segment])
        order = order[group[order].argsort(stable=True)]
        group, place = group[order], torch.cat([self.threshold, constant])[order]
        # A block must not span more than the exponent allows, so the range of a segment is first cut into cells.
        cell = ((place - torch.cat([low[target], low])[order]) * (rates.abs().max() / (2 * EXPONENT))).floor()
        block, rank = _blocks(group, cell, order >= queries)
        blocks = int(block[-1]) + 1
        begin = torch.searchsorted(block, torch.arange(blocks + 1, device=block.device))
        first, last = begin[:-1], begin[1:] - 1
        middle = (place[first] + place[last]) / 2  # [C]
        decay = (-middle.diff()[:, None] * rates.abs()).exp()
        self.gate = torch.where((group[first[1:]] == group[last[:-1]])[:, None], decay, 0.0)  # [C−1, K]

        block_of, rank_of = _unsort(order, block), _unsort(order, rank)
        home, value_home = block_of[:queries], block_of[queries:]
        self.value_slot, self.value_shape = value_home * VALUES + rank_of[queries:], (blocks, VALUES)
        keys = ((value - middle[value_home])[:, None] * rates).exp()
        self.keys = _spread(keys, self.value_slot, self.value_shape)  # [C, VALUES, K]
        self.origin = middle[home]  # [Q]

        batch, slot = _batches(block[order < queries])
        self.query_slot = _unsort(order[order < queries], slot)
        self.query_shape = (int(batch[-1]) + 1, QUERIES)
        self.home = home.new_zeros(self.query_shape[0]).index_copy(0, self.query_slot // QUERIES, home)  # [D]
        # How many values of its block lie below each query.
        self.below = _spread(rank_of[:queries, None], self.query_slot, self.query_shape)

    def operator(self, coefficient: Tensor) -> tuple[Tensor, Tensor]:
        """What multiplies the values of a query's block, [D, QUERIES, VALUES], and its states, [D, QUERIES, K]."""
        far = _spread(coefficient, self.query_slot, self.query_shape)
        keys = self.keys.index_select(0, self.home).mT
        before = far[..., : self.left] @ keys[:, : self.left]
        behind = far[..., self.left :] @ keys[:, self.left :]
        return torch.where(self.below > torch.arange(VALUES, device=far.device), before, behind), far

    def apply(self, operator: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        """The sums of x [R, F] at all queries, [Q, F]."""
        width = max(1, BUDGET // (len(self.home) * QUERIES))
        if x.shape[1] <= width:
            return self._apply(*operator, x)
        parts = [checkpoint(self._apply, *operator, part, use_reentrant=False) for part in torch.split(x, width, 1)]
        return torch.cat(parts, 1)

    def _apply(self, near: Tensor, far: Tensor, x: Tensor) -> Tensor:
        x = _spread(x, self.value_slot, self.value_shape)  # [C, VALUES, F]
        states = carry(self.keys.mT @ x, self.gate, self.left)  # [C, K, F]
        sums = torch.baddbmm(near @ x.index_select(0, self.home), far, states.index_select(0, self.home))
        return sums.flatten(0, 1).index_select(0, self.query_slot)


def _range(value: Tensor, segment: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of the segment of every value, [R] each."""
    empty = value.new_zeros(int(segment.max()) + 1)
    low = empty.scatter_reduce(0, segment, value, "amin", include_self=False)
    high = empty.scatter_reduce(0, segment, value, "amax", include_self=False)
    return low[segment], high[segment]


def _starts(*keys: Tensor) -> Tensor:
    """For each element of a sorted sequence, the position at which its run of equal keys starts."""
    index = torch.arange(keys[0].numel(), device=keys[0].device)
    same = torch.stack([key[1:] == key[:-1] for key in keys]).all(0)
    return torch.cat([index[:1], torch.where(same, 0, index[1:])]).cummax(0).values


def _blocks(group: Tensor, cell: Tensor, is_value: Tensor) -> tuple[Tensor, Tensor]:
    """Block of each element of the sorted sequence, and the number of values before it in that block.

    A block holds up to VALUES values of one cell of one group; a cell that holds queries only is a block as well.
    """
    start, index = _starts(group, cell), torch.arange(len(group), device=group.device)
    before = is_value.cumsum(0) - is_value.long()
    before = before - before[start]
    # Besides the start of a cell only values open a block: a query behind the last value of a full one stays with it.
    opens = (start == index) | (is_value & (before > 0) & (before % VALUES == 0))
    block = opens.cumsum(0) - 1
    return block, before - before[_starts(block)]


def _batches(block: Tensor) -> tuple[Tensor, Tensor]:
    """Batch and slot of queries sorted by block: at most QUERIES to a batch, all of one block."""
    slot = (torch.arange(len(block), device=block.device) - _starts(block)) % QUERIES
    batch = (slot == 0).cumsum(0) - 1
    return batch, batch * QUERIES + slot


def _unsort(order: Tensor, sorted_rows: Tensor) -> Tensor:
    """Undo rows = rows[order]; `order` may also number a leading part of them."""
    return torch.empty_like(sorted_rows).index_copy_(0, order, sorted_rows)


def _spread(rows: Tensor, slot: Tensor, shape: tuple[int, int]) -> Tensor:
    """Rows [R, F] at their slots of a zero tensor [*shape, F]."""
    return rows.new_zeros(shape[0] * shape[1], rows.shape[1]).index_copy(0, slot, rows).view(*shape, -1)


def carry(states: Tensor, gate: Tensor, left: int) -> Tensor:
    """What enters each block: the first `left` rows from the blocks before it, the others from those behind it.

    in_c = g_c (in_{c−1} + state_{c−1});   states [C, K, F], gate [C−1, K].
    """
    result: Tensor = _Carry.apply(states, gate, left, False)  # type: ignore[no-untyped-call]
    return result


class _Carry(torch.autograd.Function):
    """The scan as one linear map: its adjoint runs the other way, its tangent the same way."""

    @staticmethod
    def forward(states: Tensor, gate: Tensor, left: int, reverse: bool) -> Tensor:
        out, gate = torch.zeros_like(states), gate[:, :, None]
        onward, backward = slice(0, left), slice(left, None)
        if reverse:
            onward, backward = backward, onward
        torch.mul(states[:-1, onward], gate[:, onward], out=out[1:, onward])
        torch.mul(states[1:, backward], gate[:, backward], out=out[:-1, backward])
        _scan(out[1:, onward], gate[:, onward])
        _scan(out[:-1, backward], gate[:, backward], from_end=True)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        _, gate, ctx.left, ctx.reverse = inputs
        ctx.save_for_backward(gate)
        ctx.save_for_forward(gate)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (gate,) = ctx.saved_tensors
        return _Carry.apply(grad, gate, ctx.left, not ctx.reverse), None, None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, states: Tensor, *_: Any) -> Any:
        (gate,) = ctx.saved_tensors
        return _Carry.apply(states, gate, ctx.left, ctx.reverse)  # type: ignore[no-untyped-call]


def _scan(y: Tensor, gate: Tensor, from_end: bool = False) -> None:
    """In place y_c ← y_c + g_c y_{c−1} (y_{c+1} from the end), by pairs of pairs: 2 log₂ C steps, 2 C products."""
    size, gate = y.shape[0], gate.clone()
    steps = [2**level for level in range(size.bit_length())]
    for first, step in [(2 * step - 1, step) for step in steps] + [(3 * step - 1, step) for step in reversed(steps)]:
        count = (size - 1 - first) // (2 * step) + 1
        if count > 0:
            start, partner = (size - 1 - first - (count - 1) * 2 * step, step) if from_end else (first, -step)
            here = slice(start, start + (count - 1) * 2 * step + 1, 2 * step)
            there = slice(here.start + partner, here.stop + partner, 2 * step)
            y[here].addcmul_(gate[here], y[there])
            gate[here] *= gate[there]  # up: a gate comes to span its whole block; down: it is not asked for again
