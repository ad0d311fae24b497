"""The logarithms of attention weights on edges, loops and any pairs, and softmax over what a node hears."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern


class Scores:
    """β_ij = log w_ij = LeakyReLU(s_j + t_i) for scores s of sources and t of targets, [n, H]; in double precision.

    Weights themselves are only ever formed relative to the largest one that their target hears, so scores may have any
    scale. ``own`` [n, H] is β_ii where there are self-loops, else −∞.
    """

    def __init__(self, graph: Graph, s: Tensor, t: Tensor, slope: float, self_loops: bool) -> None:
        if slope < 0:
            raise ValueError(f"slope of LeakyReLU must be >= 0, got {slope}; weights must not fall as scores grow")
        self.graph, self.slope, self.self_loops = graph, slope, self_loops
        self.s, self.t = s.double(), t.double()
        self.edge = self.at(graph.pattern.target, graph.pattern.source)  # [E, H]
        self.loop = leaky_relu(self.s + self.t, slope)  # [n, H]
        self.own = self.loop if self_loops else torch.full_like(self.loop, -torch.inf)
        self.largest = self.heard(self.edge.detach())

    @property
    def heads(self) -> int:
        """H."""
        return self.s.shape[1]

    def at(self, target: Tensor, source: Tensor) -> Tensor:
        """β at the given pairs, [P, H]."""
        return leaky_relu(self.s.index_select(0, source) + self.t.index_select(0, target), self.slope)

    def heard(self, edges: Tensor, added: Tensor | None = None, pattern: Pattern | None = None) -> Tensor:
        """The largest β that each node hears from itself, ``edges`` and ``added`` [·, H]; 0 for who hears nobody.

        A constant in derivatives: weights relative to it are divided by their sum.
        """
        top = _row_max(self.own.detach(), self.graph.pattern.target, edges.detach())
        if added is not None and pattern is not None:
            top = _row_max(top, pattern.target, added.detach())
        return torch.where(top > -torch.inf, top, 0.0)


def _row_max(start: Tensor, target: Tensor, values: Tensor) -> Tensor:
    """max(start_i, values of row i), [n, H]."""
    return start.scatter_reduce(0, target[:, None].expand_as(values), values, "amax")
