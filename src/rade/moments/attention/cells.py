"""Scores in cells: every source at the points of its cell of s, every target's kink at the points of its own.

LeakyReLU(s_j + t_i) bends at s_j = −t_i, the kink of target i. Between two different cells of sources and kinks the
branch is fixed, so any smooth function of the weight is smooth in both and may be interpolated in both. In the kink's
own cell both branches are interpolated, and sources go to the one on their side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WIDTH = 1.0  # of a cell, in units of the scores
POINTS = 6  # Chebyshev points of a cell; functions of the weight are then interpolated to about 1e-6


class Cells:
    """Where the sources and the kinks of R rows (a head of a node) lie; ``segment`` [R] is the head of a graph.

    A *column* is a cell that holds a source: number b < B, or B for that part of the kink's own cell that lies below
    the kink (the rest of it keeps its number). Cells and ranks are constants in derivatives, weights are not.
    """

    at: Tensor  # [B] number of each cell that holds a source
    kink_at: Tensor  # [C] number of each cell that holds a kink
    source_weight: Tensor  # [R, POINTS] of a source at the points of its cell
    kink_weight: Tensor  # [R, POINTS] of a kink likewise

    def __init__(self, s: Tensor, t: Tensor, segment: Tensor, segments: int) -> None:
        self.s, self.kink, self.segment = s.detach(), -t.detach(), segment
        place = torch.stack([s, -t]) / WIDTH
        cell = place.detach().floor()
        self.source_weight, self.kink_weight = _lagrange(place - cell)
        self.at, self.source_cell = torch.unique(cell[0], return_inverse=True)
        self.kink_at, self.kink_cell = torch.unique(cell[1], return_inverse=True)
        where = torch.searchsorted(self.at, self.kink_at).clamp(max=self.columns - 1)
        self.own = torch.where(self.at[where] == self.kink_at, where, -1)[self.kink_cell]  # the kink's cell, −1: empty
        group = segment * self.columns + self.source_cell
        self.group, self.count = group, torch.bincount(group, minlength=segments * self.columns)  # [R], [segments · B]
        self.order, before = _ranked(self.s, self.kink, segment)
        start = self.count.cumsum(0) - self.count
        self.rank = torch.empty_like(group).index_copy_(0, self.order, torch.arange(group.numel(), device=s.device))
        self.rank -= start[group]  # the number of a source within its cell
        self.own_group = segment * self.columns + self.own.clamp(min=0)
        held = (self.own >= 0) & (self.count[self.own_group] > 0)
        self.below = torch.where(held, before - start[self.own_group], 0)  # sources of the own cell below the kink, [R]
        self.split = held  # whether the kink's own cell holds a source, [R]
        self.start = start

    @property
    def columns(self) -> int:
        """B, the number of cells that hold a source."""
        return self.at.numel()

    def column(self, target: Tensor, source: Tensor) -> Tensor:
        """The column in which a target row finds a source row."""
        cell = self.source_cell[source]
        return torch.where((cell == self.own[target]) & (self.s[source] < self.kink[target]), self.columns, cell)

    def in_columns(self, cells: Tensor, below: Tensor) -> Tensor:
        """Sums over cells [segments, B, …] and below the kink [R, …] as columns of rows, [R, B + 1, …]."""
        rows, split = cells.index_select(0, self.segment), self.split.nonzero().squeeze(1)
        above = rows.index_put((split, self.own[split]), -below.index_select(0, split), accumulate=True)
        return torch.cat([above, below[:, None]], 1)

    def log_weights(self, kink_cell: int, slope: float) -> Tensor:
        """log w between the points of a cell of kinks and of all columns, [POINTS, B + 1, POINTS]."""
        points = _points(self.at)
        kink = self.kink_at[kink_cell]
        apart = torch.cat([self.at - kink, self.at.new_zeros(1)])[:, None]
        return (apart + points - points[:, None, None]) * WIDTH * self._branch(kink, slope)

    def log_weights_of(self, slope: float, t: Tensor) -> Tensor:
        """log w from the points of all columns to each row, [R, B + 1, POINTS]; t [R] with its derivative."""
        here = torch.cat([self.at.expand(t.numel(), -1), self.kink_at[self.kink_cell][:, None]], 1)
        ahead = (here[..., None] + _points(self.at)) * WIDTH + t[:, None, None]
        return ahead * self._branch(self.kink_at[self.kink_cell][:, None], slope)

    def _branch(self, kink: Tensor, slope: float) -> Tensor:
        """1 for columns above the kink, ``slope`` for those below, [..., B + 1, 1]."""
        lower = torch.cat([self.at < kink, torch.ones_like(kink, dtype=torch.bool).reshape(*kink.shape[:-1], 1)], -1)
        return torch.where(lower, slope, 1.0)[..., None].to(self.at)


def _ranked(values: Tensor, thresholds: Tensor, segment: Tensor) -> tuple[Tensor, Tensor]:
    """Values in the order (segment, value), and how many of that sequence stand before each threshold; equal: above."""
    rows = values.numel()
    order = torch.cat([thresholds, values]).argsort(stable=True)  # thresholds first: an equal value counts as above
    order = order[segment.repeat(2)[order].argsort(stable=True)]
    is_value = order >= rows
    before = torch.empty_like(order[:rows]).index_copy_(0, order[~is_value], is_value.cumsum(0)[~is_value])
    return order[is_value] - rows, before


def _points(like: Tensor) -> Tensor:
    """Chebyshev points of [0, 1], [POINTS]."""
    index = torch.arange(POINTS, dtype=like.dtype, device=like.device)
    return (1 - torch.cos((index + 0.5) * (math.pi / POINTS))) / 2


def _lagrange(place: Tensor) -> Tensor:
    """Weights of the points for interpolation at ``place`` ∈ [0, 1], [...] → [..., POINTS]: powers times a matrix."""
    powers, x = [torch.ones_like(place)], 2 * place - 1
    for _ in range(POINTS - 1):
        powers.append(powers[-1] * x)
    vander = torch.linalg.vander(2 * _points(place) - 1)
    weights: Tensor = torch.stack(powers, -1) @ torch.linalg.inv(vander)
    return weights
