"""Sums of functions of the attention weight over all nodes or all non-neighbors, without a list of pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.operator import Kernel
from rade.moments.attention.cells import POINTS, Cells
from rade.moments.attention.prefix import Prepared, ThresholdSums
from rade.moments.attention.scores import Scores


class AttentionSums:
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


class AttentionKernel(Kernel):
    """K_ij given at the points of all columns, [R, B + 1, POINTS]: zero in columns without a non-neighbor."""

    def __init__(self, sums: AttentionSums, values: Tensor, dtype: torch.dtype) -> None:
        self.sums, self.dtype, cells = sums, dtype, sums.cells
        self.values = values.masked_fill(sums.empty[..., None], 0.0)
        queries = cells.split.nonzero().squeeze(1)
        self.queries = queries
        keys = (cells.group, cells.rank, cells.source_weight, cells.count)
        self.below = ThresholdSums(*keys, cells.own_group[queries], cells.below[queries])
        # All columns of cells are summed whole, the kink's own as above the kink; below it the branches are exchanged.
        own = self.values[queries, cells.own[queries]]
        self.prepared: Prepared = self.below.prepare(self.values[queries, -1] - own, dtype)
        self.whole = self.values[:, :-1].flatten(1).to(dtype).view(-1, sums.heads, cells.columns * POINTS)

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j K_ij x_j over all j of i's graph, j = i included, [n, H, F]."""
        graph, heads = self.sums.graph, self.sums.heads
        below, totals = self.below.apply(self.prepared, x.flatten(0, 1).to(self.dtype))
        out = _by_graph(graph, self.whole, totals.view(graph.num_graphs, heads, -1, x.shape[-1]))
        return out.flatten(0, 1).index_add(0, self.queries, below).view_as(x)

    def edges(self) -> Tensor:
        """K on the clean edges by the same interpolation, so that what was added is taken off, [E, H]."""
        return self.sums.edges(self.values).to(self.dtype)

    def loops(self) -> Tensor:
        """K_ii, likewise, [n, H]."""
        return self.sums.loops(self.values).to(self.dtype)


def _by_graph(graph: Graph, rows: Tensor, totals: Tensor) -> Tensor:
    """Rows [n, H, K] of nodes times the matrices [B, H, K, F] of their graphs, [n, H, F]: a product for each width."""
    if graph.num_graphs == 1:
        return (rows.transpose(0, 1) @ totals[0]).transpose(0, 1)
    padded = torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])])
    found = rows.new_zeros(rows.shape[0] + 1, rows.shape[1], totals.shape[-1])
    for graphs, nodes in graph.once("widths", lambda: _widths(graph)):
        block = padded[nodes].transpose(1, 2) @ totals[graphs]  # [G, H, W, F]
        found = found.index_add(0, nodes.flatten(), block.transpose(1, 2).flatten(0, 1))
    return found[:-1]


def _widths(graph: Graph) -> list[tuple[Tensor, Tensor]]:
    """Graphs [G] of about one size, and their nodes [G, W] filled up with n to a power of two."""
    power = torch.ceil(torch.log2(graph.sizes.clamp(min=1).double())).long()
    found = []
    for of in torch.unique(power):
        graphs = (power == of).nonzero().squeeze(1)
        place = torch.arange(int(2**of), device=graph.device)
        nodes = graph.ptr[graphs][:, None] + place
        found.append((graphs, nodes.masked_fill(place >= graph.sizes[graphs][:, None], graph.num_nodes)))
    return found
