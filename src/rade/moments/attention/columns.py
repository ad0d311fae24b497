"""A sample of nodes that all targets share, as the columns of a matrix: scores of pairs without a list of pairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.nodes import Nodes
from rade.graph.operator import Operator, Part
from rade.graph.pairs import fixed_positions
from rade.moments.attention.delta_law import PerWeight
from rade.moments.attention.scores import FeatureScores


@dataclass(frozen=True, eq=False)
class Columns:
    """Some nodes of a single graph, and for how many non-neighbors of each node i every one of them stands."""

    nodes: Tensor  # [S]
    times: Tensor  # [n, S]; 0 where the column is i itself or a neighbor


def draw_columns(graph: Graph, count: int, generator: torch.Generator | None, dtype: torch.dtype) -> Columns:
    """``count`` nodes without replacement: given how many of them a node does not hear, these are a uniform sample."""
    nodes = fixed_positions(graph.num_nodes, min(count, graph.num_nodes), generator, graph.device)
    place = torch.full((graph.num_nodes,), -1, device=graph.device)
    place[nodes] = torch.arange(nodes.numel(), device=graph.device)
    heard = torch.zeros(graph.num_nodes, nodes.numel(), dtype=torch.bool, device=graph.device)
    column = place[graph.pattern.source]
    entries = (column >= 0).nonzero().squeeze(1)
    heard[graph.pattern.target[entries], column[entries]] = True
    heard[nodes, place[nodes]] = True
    others = (~heard).to(dtype)
    return Columns(nodes, others * (graph.nonneighbors / others.sum(1).clamp(min=1))[:, None])


class ColumnOthers:
    """Non-neighbors by a sample of columns; weights in the precision of the features, the largest of a row is 1."""

    def __init__(self, scores: FeatureScores, shift: Tensor, columns: Columns) -> None:
        self.columns = columns
        beta = scores.table(columns.nodes)  # [n, H, S]
        self.shift = torch.maximum(shift, beta.detach().amax(2).double())
        self.weight = torch.exp(beta - self.shift.to(beta.dtype)[..., None])

    def total(self, power: int) -> Tensor:
        """Σ_s times_is w_is^power, [n, H] in double precision."""
        return (self.columns.times[:, None] * self.weight.pow(power)).sum(2).double()

    def operator(self, value: PerWeight, mean: Tensor, variance: Tensor, dtype: torch.dtype) -> Operator:
        """Σ_s times_is value(w_is) x_s."""
        rows = (moment.to(self.weight.dtype)[..., None] for moment in (mean, variance))
        values = self.columns.times[:, None] * value(self.weight, *rows)
        return Operator((ColumnSums(self.columns.nodes, values.to(dtype)),))


@dataclass(frozen=True, eq=False)
class ColumnSums(Part):
    """Weights [k, H, S] of some nodes as sources, for all rows or some."""

    nodes: Tensor  # [S]
    values: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """One product of dense matrices for each head, [n, H, F] → [k, H, F]."""
        return torch.einsum("khs,shf->khf", self.values, x.index_select(0, self.nodes))

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """A product, then a sum."""
        return total + self.apply(x)

    def constant(self) -> None:
        """Never: weights have a head axis."""

    def scaled(self, factor: Tensor) -> ColumnSums:
        return ColumnSums(self.nodes, factor[..., None] * self.values)

    def merged(self, other: Part) -> Part | None:
        """Values add where the columns are the same tensor."""
        if isinstance(other, ColumnSums) and other.nodes is self.nodes:
            return ColumnSums(self.nodes, self.values + other.values)
        return None

    def rows(self, nodes: Nodes, given: Nodes | None) -> ColumnSums:
        """Columns stand for everybody, who hence must be given."""
        assert given is None
        return ColumnSums(self.nodes, self.values.index_select(0, nodes.index))
