"""Sums of functions of the attention weight over all nodes, without a list of pairs: scores in cells.

Every source stands at the points of its cell of s, every target's kink at the points of its own.

LeakyReLU(s_j + t_i) bends at s_j = −t_i, the kink of target i. Between two different cells of sources and kinks the
branch is fixed, so any smooth function of the weight is smooth in both and may be interpolated in both. In the kink's
own cell both branches are interpolated, and sources go to the one on their side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.moments.attention.prefix import ThresholdSums
from rade.moments.attention.scores import Scores
from rade.sums import Everyone, Sums

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


class NodesInCells:
    """Who stands where: the neighbors and the non-neighbors of every row (head of a node) at the points of columns.

    ``neighbors`` and ``others`` [R, B + 1, POINTS] turn Σ_j f(w_ij) into Σ_{column, point} (·) f(w at the point).
    ``empty`` [R, B + 1] tells, by integer counts, the columns all of whose sources are neighbors or the node itself:
    there nothing is left, not the rounding of all − edges − loop.
    """

    def __init__(self, scores: Scores) -> None:
        self.scores, self.graph, self.heads = scores, scores.graph, scores.heads
        graph, heads = self.graph, self.heads
        segment = (graph.batch[:, None] * heads + torch.arange(heads, device=graph.device)).flatten()
        segments = graph.num_graphs * heads
        cells = self.cells = Cells(scores.s.flatten(), scores.t.flatten(), segment, segments)
        target, source = self.rows(graph.pattern.target).flatten(), self.rows(graph.pattern.source).flatten()
        self.edge_column = cells.column(target, source)
        nodes = torch.arange(segment.numel(), device=graph.device)
        self.loop_column = cells.column(nodes, nodes)
        size = nodes.numel() * (cells.columns + 1)
        at_edge = target * (cells.columns + 1) + self.edge_column
        at_loop = nodes * (cells.columns + 1) + self.loop_column
        gone = torch.bincount(torch.cat([at_edge, at_loop]), minlength=size).view(nodes.numel(), -1)
        self.empty = gone == cells.in_columns(cells.count.view(segments, -1), cells.below)
        weight = cells.source_weight
        neighbors = weight.new_zeros(size, POINTS).index_add(0, at_edge, weight.index_select(0, source))
        everyone = weight.new_zeros(cells.count.numel(), POINTS).index_add(0, cells.group, weight)
        upto = torch.cat([weight[:1] * 0, weight[cells.order].cumsum(0)])
        first = cells.start[cells.own_group]
        below = upto.index_select(0, first + cells.below) - upto.index_select(0, first)
        others = cells.in_columns(everyone.view(segments, cells.columns, POINTS), below)
        others = others - (neighbors.index_add(0, at_loop, weight)).view_as(others)
        self.neighbors, self.others = neighbors.view_as(others), others.masked_fill(self.empty[..., None], 0.0)

    def rows(self, nodes: Tensor) -> Tensor:
        """The rows of the heads of some nodes, [P] → [P, H]."""
        return nodes[:, None] * self.heads + torch.arange(self.heads, device=nodes.device)

    def read(self, values: Tensor, target: Tensor, source: Tensor, column: Tensor) -> Tensor:
        """Columns' values [R, B + 1, POINTS] at pairs of rows [P], by interpolation."""
        at = values.flatten(0, 1).index_select(0, target * (self.cells.columns + 1) + column)
        return (at * self.cells.source_weight.index_select(0, source)).sum(1)

    def edges(self, values: Tensor) -> Tensor:
        """Columns' values on the clean edges, [E, H]."""
        pattern = self.graph.pattern
        target, source = self.rows(pattern.target).flatten(), self.rows(pattern.source).flatten()
        return self.read(values, target, source, self.edge_column).view(-1, self.heads)

    def loops(self, values: Tensor) -> Tensor:
        """Columns' values from each node to itself, [n, H]."""
        nodes = torch.arange(self.loop_column.numel(), device=self.loop_column.device)
        return self.read(values, nodes, nodes, self.loop_column).view(-1, self.heads)


class HeadKernel(Everyone):
    """Weights of all pairs with a head axis: they are scaled by what multiplies their sums."""

    def scaled(self, factor: Tensor) -> Everyone:
        return _Scaled(self, factor)


class _Scaled(Everyone):
    def __init__(self, kernel: HeadKernel, factor: Tensor) -> None:
        self.kernel, self.factor = kernel, factor  # [n, H]

    def apply(self, x: Tensor) -> Tensor:
        return self.factor.unsqueeze(-1) * self.kernel.apply(x)

    def scaled(self, factor: Tensor) -> Everyone:
        return _Scaled(self.kernel, factor * self.factor)


class AttentionKernel(HeadKernel):
    """K_ij given at the points of all columns, [R, B + 1, POINTS]: zero in columns without a non-neighbor."""

    def __init__(self, nodes: NodesInCells, values: Tensor, dtype: torch.dtype) -> None:
        self.nodes, self.dtype, cells = nodes, dtype, nodes.cells
        self.values = values.masked_fill(nodes.empty[..., None], 0.0)
        queries = self.queries = cells.split.nonzero().squeeze(1)
        keys = (cells.group, cells.rank, cells.source_weight, cells.count)
        self.below = ThresholdSums(*keys, cells.own_group[queries], cells.below[queries])
        # All columns of cells are summed whole, the kink's own as above the kink; below it the branches are exchanged.
        own = self.values[queries, cells.own[queries]]
        self.prepared = self.below.prepare(self.values[queries, -1] - own, dtype)
        self.whole = self.values[:, :-1].flatten(1).to(dtype).view(-1, nodes.heads, cells.columns * POINTS)

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j K_ij x_j over all j of i's graph, j = i included, [n, H, F]."""
        graph, heads = self.nodes.graph, self.nodes.heads
        below, totals = self.below.apply(self.prepared, x.flatten(0, 1).to(self.dtype))
        out = _by_graph(graph, self.whole, totals.view(graph.num_graphs, heads, -1, x.shape[-1]))
        return out.flatten(0, 1).index_add(0, self.queries, below).view_as(x)

    def over_nonedges(self) -> Sums:
        """Σ_{j∉N(i), j≠i} K_ij x_j: edges and loops by the same interpolation, so that what was added is taken off."""
        edges, loop = (
            values.to(self.dtype) for values in (self.nodes.edges(self.values), self.nodes.loops(self.values))
        )
        return Sums(self.nodes.graph, -edges, -loop, everyone=(self,))


def _by_graph(graph: Graph, rows: Tensor, totals: Tensor) -> Tensor:
    """Rows [n, H, K] of nodes times the matrices [B, H, K, F] of their graphs, [n, H, F]: a product for each width."""
    if graph.num_graphs == 1:
        return (rows.transpose(0, 1) @ totals[0]).transpose(0, 1)
    padded = torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])])
    found = rows.new_zeros(rows.shape[0] + 1, rows.shape[1], totals.shape[-1])
    for graphs, nodes in _widths(graph):
        block = padded[nodes].transpose(1, 2) @ totals[graphs]  # [G, H, W, F]
        found = found.index_add(0, nodes.flatten(), block.transpose(1, 2).flatten(0, 1))
    return found[:-1]


def _widths(graph: Graph) -> list[tuple[Tensor, Tensor]]:
    """Graphs [G] of about one size, and their nodes [G, W] filled up with n to a power of two; found once."""
    if "widths" not in graph.cache:
        power = torch.ceil(torch.log2(graph.sizes.clamp(min=1).double())).long()
        graph.cache["widths"] = [_of_width(graph, power == p, int(2**p)) for p in torch.unique(power)]
    found: list[tuple[Tensor, Tensor]] = graph.cache["widths"]
    return found


def _of_width(graph: Graph, which: Tensor, width: int) -> tuple[Tensor, Tensor]:
    graphs, place = which.nonzero().squeeze(1), torch.arange(width, device=graph.device)
    nodes = graph.ptr[graphs][:, None] + place
    if graph.by_graph is not None:
        nodes = graph.by_graph[nodes.clamp(max=graph.num_nodes - 1)]
    return graphs, nodes.masked_fill(place >= graph.sizes[graphs][:, None], graph.num_nodes)


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
