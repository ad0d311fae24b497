"""Functions of pairs of nodes that are summed over all nodes of a graph without a list of pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from rade.graph.constant import Constant, Outer, is_constant
from rade.graph.graph import Graph
from rade.graph.nodes import Nodes


class Kernel(Protocol):
    """A function K of ordered pairs (i, j) of one graph that can be summed over all j without a list of pairs."""

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j K_ij x_j over all nodes j of i's graph, i itself included."""

    def edges(self) -> Tensor:
        """K on the clean edges, [E] or [E, H]."""

    def loops(self) -> Tensor:
        """K_ii, [n] or [n, H]."""

    def added_to(self, total: Tensor, x: Tensor, factor: Tensor | None) -> Tensor:
        """total + diag(factor) K x; a kernel may know a way with fewer passes over the features."""
        sums = self.apply(x)
        return total + sums if factor is None else torch.addcmul(total, factor.unsqueeze(-1), sums)

    def rows(self, nodes: Nodes) -> Kernel:
        """The sums of some nodes; a kernel may know how to leave the others out."""
        return _SomeRows(self, nodes)

    def constant(self, factor: Tensor | None) -> Constant | None:
        """diag(factor) K with all weights at hand, where they are constants and K can be transposed; else None."""
        return None


@dataclass(frozen=True, eq=False)
class _SomeRows(Kernel):
    """Some rows of a kernel that only knows all of them."""

    kernel: Kernel
    nodes: Nodes

    def apply(self, x: Tensor) -> Tensor:
        return self.kernel.apply(x).index_select(0, self.nodes.index)

    def edges(self) -> Tensor:
        return self.kernel.edges()

    def loops(self) -> Tensor:
        return self.kernel.loops().index_select(0, self.nodes.index)


@dataclass(frozen=True, eq=False)
class LowRank(Kernel):
    """K_ij = Σ_r left_ir right_jr within each graph: the non-edge weights of every separable aggregator.

    Factors are given per node, [n, R], or with ``by_degree`` per degree class, [U, R].
    """

    graph: Graph
    left: Tensor
    right: Tensor
    by_degree: bool = False
    targets: Nodes | None = None  # whose sums are wanted; all if None

    def apply(self, x: Tensor) -> Tensor:
        """One weighted sum over each graph per rank, [n, F] → [n, F]; heads share the weights."""
        flat = x.flatten(1)
        left, _ = self._per_node
        if self.graph.num_graphs == 1:
            out = left @ self._sums(flat)
        else:
            out = (left[:, :, None] * self._sums(flat)).sum(1)
        return out.view(-1, *x.shape[1:])

    def rows(self, nodes: Nodes) -> LowRank:
        """Sums over everybody, spread to some."""
        return replace(self, targets=nodes)

    def added_to(self, total: Tensor, x: Tensor, factor: Tensor | None) -> Tensor:
        """On one graph and without heads in one pass over the features, without K x itself."""
        if x.dim() == 3:
            return super().added_to(total, x, factor)
        left, _ = self._per_node
        scaled = left if factor is None else factor[:, None] * left
        if self.graph.num_graphs == 1:
            added = torch.addmm if scaled.shape[1] > 1 else torch.addcmul  # an outer product is no matter of blocks
            return added(total, scaled, self._sums(x))
        return total + (scaled[:, :, None] * self._sums(x)).sum(1)

    def constant(self, factor: Tensor | None) -> Constant | None:
        """Factors of every node, found once for all layers."""
        if not is_constant(self.left, self.right):
            return None
        left, right = self._per_node
        left = left if factor is None else factor[:, None] * left
        batch = self.graph.batch
        return Outer(
            left, right, self.graph.num_graphs, batch if self.targets is None else batch[self.targets.index], batch
        )

    def edges(self) -> Tensor:
        """[E] values on the clean edges."""
        if not self.by_degree:
            pattern = self.graph.pattern
            return (self.left[pattern.target] * self.right[pattern.source]).sum(-1)
        target, source, of = self.graph.edge_classes
        pairs = self.left.index_select(0, target) * self.right.index_select(0, source)
        return pairs.sum(-1).index_select(0, of)  # index_select, whose derivative is three times as fast as that of [ ]

    def loops(self) -> Tensor:
        """[n] values on the diagonal."""
        left, right = self._per_node
        return (left * right).sum(-1)

    def _sums(self, x: Tensor) -> Tensor:
        """Σ_j right_jr x_j, [R, F] on one graph, else those of each target's graph, [k, R, F]."""
        _, right = self._per_node
        if self.graph.num_graphs == 1:
            return right.t() @ x
        batch = self.graph.batch if self.targets is None else self.graph.batch[self.targets.index]
        return self.graph.pool(right[:, :, None] * x[:, None, :]).index_select(0, batch)

    @property
    def _per_node(self) -> tuple[Tensor, Tensor]:
        """Left factors of the targets, [k, R], and right factors of everybody, [n, R]."""
        left, right = self.left, self.right
        if self.by_degree:
            of = self.graph.degree_classes[2]
            right = right.index_select(0, of)
            return left.index_select(0, of if self.targets is None else of[self.targets.index]), right
        return left if self.targets is None else left.index_select(0, self.targets.index), right
