"""Sums over pairs on uniform grids of scores: what is a smooth function of a score is read off its grid points.

Values between the points are cubic, so a sum of f(β) over many β is a sum over grid points, weighted by who lies there:
one product with a table of f replaces one evaluation per pair. Cells are constants in derivatives, weights are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.graph.graph import Graph
from rade.moments.attention.scores import Scores
from rade.sums import Everyone, Sums

ROWS = 64  # rows of a block, which share a product
MOST_POINTS = 2048  # of a grid; where scores lie further apart its cells are wider
MOST_SUMS = 512  # the same for the two grids whose sums are tabulated
LEFT = 0.02  # least part of the neighbors' weight that may be left to all others
Table = Callable[[Tensor], Tensor]  # log weights [P] → values at all levels [K, P]


class Grid:
    """Evenly spaced points that cover some values with one more on either side, and two at the upper end."""

    def __init__(self, low: float, high: float, spacing: float, dtype: torch.dtype) -> None:
        self.low, self.spacing, self.dtype = low, spacing, dtype
        self.size = int((high - low) / spacing) + 4

    @staticmethod
    def over(values: Tensor, spacing: float, dtype: torch.dtype, most: int = MOST_POINTS) -> Grid:
        """Over all of some values; wider cells where they are far apart, and one cell where there are none."""
        low, high = (float(values.min()), float(values.max())) if values.numel() else (0.0, 0.0)
        return Grid(low, high, max(spacing, (high - low) / most), dtype)

    def points(self, like: Tensor) -> Tensor:
        """[size] in double precision."""
        index = torch.arange(-1, self.size - 1, dtype=torch.double, device=like.device)
        return self.low + self.spacing * index

    def place(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The first of the four points about each value, [...], and their weights, [..., 4]."""
        place = (values - self.low) / self.spacing
        cell = place.detach().floor()
        a = (place - cell).to(self.dtype)
        b, c, d = 1.0 - a, 1.0 + a, 2.0 - a
        ab, cd = a * b, c * d
        weights = torch.stack([ab * d * (-1 / 6), b * cd * 0.5, a * cd * 0.5, ab * c * (-1 / 6)], -1)
        return cell.long(), weights


class PairsOnGrid:
    """Pairs with log weights β [P, H], by target [P], on a grid of each row: a head of a target."""

    def __init__(self, beta: Tensor, target: Tensor, nodes: int, grid: Grid) -> None:
        self.shape, self.size = beta.shape, nodes * beta.shape[1] * grid.size
        self.columns = grid.size
        cell, weight = grid.place(beta)
        row = target[:, None] * beta.shape[1] + torch.arange(beta.shape[1], device=target.device)
        point = torch.arange(4, device=target.device)
        self.slot = ((row * grid.size + cell)[..., None] + point).flatten()
        self.weight = weight.flatten()

    @cached_property
    def counts(self) -> Tensor:
        """How many pairs of each row lie at each point, [R, points]."""
        return self.weight.new_zeros(self.size).index_add(0, self.slot, self.weight).view(-1, self.columns)

    def read(self, values: Tensor) -> Tensor:
        """A function of each row, given at the points [R, points], at its pairs, [P, H]."""
        at = values.flatten().index_select(0, self.slot) * self.weight
        return at.view(*self.shape, 4).sum(-1)


class Sources:
    """All nodes as senders: where their scores s lie on a grid, in every segment, a head of a graph."""

    def __init__(self, scores: Scores, grid: Grid) -> None:
        self.grid, self.graph, heads = grid, scores.graph, torch.arange(scores.heads, device=scores.graph.device)
        self.segment = (self.graph.batch[:, None] * scores.heads + heads).flatten()  # [R]
        self.segments = self.graph.num_graphs * scores.heads
        cell, self.weight = grid.place(scores.s.flatten())
        self.cell = self.segment * grid.size + cell
        self.blocks = Blocks(self.cell)

    def counts(self) -> Tensor:
        """How many of each segment lie at each point, [segments, points, 1]."""
        slot = (self.cell[:, None] + torch.arange(4, device=self.cell.device)).flatten()
        found = self.weight.new_zeros(self.segments * self.grid.size).index_add(0, slot, self.weight.flatten())
        return found.view(self.segments, -1, 1)

    def spread(self, x: Tensor) -> Tensor:
        """What they send, x [R, F], at the points, [segments, points, F]."""
        weights, rows = self.blocks.gather(self.weight), self.blocks.gather(x.to(self.weight.dtype))
        slot = (self.blocks.group[:, None] + torch.arange(4, device=self.cell.device)).flatten()
        found = x.new_zeros(self.segments * self.grid.size, x.shape[1], dtype=rows.dtype)
        return found.index_add(0, slot, (weights.mT @ rows).flatten(0, 1)).view(self.segments, self.grid.size, -1)


class Everybody:
    """All nodes of each target's graph, itself included, with weights exp LeakyReLU(s_j + t_i); no list of pairs.

    Sources lie on a grid of s, targets on one of t with the same spacing, so a table of f(LeakyReLU(s + t)) has one
    value for each sum of two places. Where the kink lies between two points, the score of a pair is off by as much as a
    twentieth of the spacing, in either direction: sums over many sources are not. So there are always many points.
    """

    def __init__(self, scores: Scores, spacing: float, points: int, dtype: torch.dtype) -> None:
        ends = [(float(x.min()), float(x.max())) for x in (scores.s.detach(), scores.t.detach())]
        span = max(1e-3, *(high - low for low, high in ends))
        spacing = max(min(spacing, span / points), span / MOST_SUMS)
        of_sources, self.grid = (Grid(low, high, spacing, dtype) for low, high in ends)
        self.sources = Sources(scores, of_sources)
        cell, self.weight = self.grid.place(scores.t.flatten())
        self.blocks = Blocks(cell + self.sources.segment * self.grid.size)
        both = torch.arange(of_sources.size + self.grid.size - 1, dtype=torch.double, device=cell.device)
        self.log_weight = leaky_relu(of_sources.low + self.grid.low + spacing * (both - 2), scores.slope)

    def count(self, table: Table) -> Tensor:
        """Σ_j f_k(β_ij) of every row at every level, [R, K]."""
        found = self._at_targets(table, self.sources.counts()).squeeze(-1)  # [blocks, 4, K]
        return self.blocks.scatter(self.blocks.gather(self.weight) @ found)

    def sums(self, table: Table, density: Tensor, x: Tensor) -> Tensor:
        """Σ_k density_ik Σ_j f_k(β_ij) x_j for messages x [R, F]; density [R, K]."""
        found = self._at_targets(table, self.sources.spread(x)).transpose(1, 2).flatten(2)  # [blocks, K, 4 · F]
        read = (self.blocks.gather(density) @ found).view(-1, ROWS, 4, x.shape[1])
        return self.blocks.scatter((read * self.blocks.gather(self.weight)[..., None]).sum(2))

    def _at_targets(self, table: Table, spread: Tensor) -> Tensor:
        """Σ over the points of sources [segments, S, F] at the four points of each block of targets, [B, 4, K, F]."""
        values = table(self.log_weight).to(spread.dtype)  # [K, S + T − 1]
        matrix = values.unfold(1, spread.shape[1], 1).flatten(0, 1)  # [K · T, S]
        found = (matrix @ spread).view(len(spread), len(values), self.grid.size, -1).transpose(1, 2).flatten(0, 1)
        slot = (self.blocks.group[:, None] + torch.arange(4, device=found.device)).flatten()
        return found.index_select(0, slot).view(-1, 4, *found.shape[1:])


class Blocks:
    """Rows in blocks of at most ROWS, all of one group."""

    def __init__(self, group: Tensor) -> None:
        order = group.argsort()
        ordered, index = group[order], torch.arange(group.numel(), device=group.device)
        first = torch.where(ordered == ordered.roll(1), 0, index).cummax(0).values
        place = (index - first) % ROWS
        block = (place == 0).cumsum(0) - 1
        self.count = int(block[-1]) + 1 if group.numel() else 0
        self.slot = torch.empty_like(order).index_copy_(0, order, block * ROWS + place)
        self.group = group.new_zeros(self.count).index_copy_(0, block, ordered)

    def gather(self, rows: Tensor) -> Tensor:
        """Rows [R, F] in their blocks, zeros elsewhere, [blocks, ROWS, F]."""
        empty = rows.new_zeros(self.count * ROWS, rows.shape[1])
        return empty.index_copy(0, self.slot, rows).view(self.count, ROWS, -1)

    def scatter(self, blocks: Tensor) -> Tensor:
        """Back to [R, F]."""
        return blocks.flatten(0, 1).index_select(0, self.slot)


class RowKernel(Everyone):
    """factor_i (K_ij + floor_i) of all pairs, loops included, with a head axis.

    ``sums`` gives Σ_j K_ij x_j of rows x [R, F]; weights are scaled by what multiplies their sums.
    """

    def __init__(
        self, graph: Graph, sums: Callable[[Tensor], Tensor], floor: Tensor, factor: Tensor | None = None
    ) -> None:
        self.graph, self.sums, self.floor, self.factor = graph, sums, floor, factor  # [n, H]

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j over all j of i's graph, j = i included, [n, H, F]."""
        found = self.sums(x.flatten(0, 1)).view_as(x).to(x)
        found = found + self.floor.to(x)[..., None] * self.graph.per_node(self.graph.pool(x))
        return found if self.factor is None else self.factor.unsqueeze(-1) * found

    def scaled(self, factor: Tensor) -> RowKernel:
        factor = factor if self.factor is None else factor * self.factor
        return RowKernel(self.graph, self.sums, self.floor, factor)


def over_nonedges(
    graph: Graph, sums: Callable[[Tensor], Tensor], edges: Tensor, own: Tensor, dtype: torch.dtype
) -> Sums:
    """Σ_{j∉N(i)} K_ij x_j: everybody, less what neighbors [E, H] and the node itself [n, H] have of it.

    Where these outweigh all others by far, nothing but errors may be left. What is left is then taken to be LEFT of
    theirs, evenly: so a mean over the others is a mean, and their weight is off by that at most.
    """
    with torch.no_grad():
        near = graph.pattern.row_sum(edges) + own
        everybody = sums(torch.ones_like(near.view(-1, 1))).view_as(near)
        floor = ((1.0 + LEFT) * near - everybody).clamp(min=0) / graph.nonneighbors.clamp(min=1)[:, None]
    edges, own = edges + floor.index_select(0, graph.pattern.target), own + floor
    return Sums(graph, -edges.to(dtype), -own.to(dtype), everyone=(RowKernel(graph, sums, floor),))
