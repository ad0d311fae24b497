"""Linear operators on node features, as sums of parts: clean edges, other pairs, diagonal, all pairs of a graph.

"All non-neighbors" is never a list: it is all pairs of the graph − loops − edges. Build an operator first (parts add
and scale), then apply it once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.nodes import Nodes
from rade.graph.sparse import Pattern, product


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


class Part(Protocol):
    """A summand of an operator."""

    def apply(self, x: Tensor) -> Tensor:
        """The summand times node features, [n, F] or [n, H, F]."""

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """total + apply(x)."""

    def scaled(self, factor: Tensor) -> Part:
        """diag(factor) times the summand; factor [n] or [n, H]."""

    def merged(self, other: Part) -> Part | None:
        """The sum with another summand as one, or None where they have no common structure."""

    def rows(self, nodes: Nodes, given: Nodes | None) -> Part:
        """The rows of some nodes, as a summand that takes the features of the nodes ``given``, all if None."""


@dataclass(frozen=True, eq=False)
class Sparse(Part):
    """Weights on a pattern: values [E] or, per head, [E, H]."""

    pattern: Pattern
    values: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """One sparse product (one per head)."""
        if x.dim() == 2:
            return product(self.values, x, self.pattern)
        heads = [product(v, h, self.pattern) for v, h in zip(self.values.unbind(1), x.unbind(1))]
        return torch.stack(heads, dim=1)

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """A product, then a sum."""
        return total + self.apply(x)

    def scaled(self, factor: Tensor) -> Sparse:
        """Scale by the target's factor."""
        return Sparse(self.pattern, factor.index_select(0, self.pattern.target) * self.values)

    def merged(self, other: Part) -> Part | None:
        """Values add where the pattern is the same object."""
        if isinstance(other, Sparse) and other.pattern is self.pattern:
            return Sparse(self.pattern, self.values + other.values)
        return None

    def rows(self, nodes: Nodes, given: Nodes | None) -> Sparse:
        pattern, entries = self.pattern.block(nodes, given)
        return Sparse(pattern, self.values.index_select(0, entries))


@dataclass(frozen=True, eq=False)
class Diagonal(Part):
    """A factor per node, [n] or [n, H]."""

    values: Tensor

    def apply(self, x: Tensor) -> Tensor:
        return self.values.unsqueeze(-1) * x

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Multiply and add in one pass."""
        return torch.addcmul(total, self.values.unsqueeze(-1), x)

    def scaled(self, factor: Tensor) -> Diagonal:
        return Diagonal(factor * self.values)

    def merged(self, other: Part) -> Part | None:
        return Diagonal(self.values + other.values) if isinstance(other, Diagonal) else None

    def rows(self, nodes: Nodes, given: Nodes | None) -> Picked:
        return Picked(self.values.index_select(0, nodes.index), at(nodes, given))


@dataclass(frozen=True, eq=False)
class Picked(Part):
    """A factor per row, [k] or [k, H], on the features of one node each: some rows of a diagonal."""

    values: Tensor
    nodes: Tensor  # [k] place of each among the given features

    def apply(self, x: Tensor) -> Tensor:
        return self.values.unsqueeze(-1) * x.index_select(0, self.nodes)

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Multiply and add in one pass."""
        return torch.addcmul(total, self.values.unsqueeze(-1), x.index_select(0, self.nodes))

    def scaled(self, factor: Tensor) -> Picked:
        return Picked(factor * self.values, self.nodes)

    def merged(self, other: Part) -> Part | None:
        """Factors add where the nodes are the same tensor."""
        if isinstance(other, Picked) and other.nodes is self.nodes:
            return Picked(self.values + other.values, self.nodes)
        return None

    def rows(self, nodes: Nodes, given: Nodes | None) -> Picked:
        raise NotImplementedError("rows are taken once, from the whole operator")


@dataclass(frozen=True, eq=False)
class AllPairs(Part):
    """K_ij, or factor_i · K_ij, for all pairs (i, j) of the same graph, loops included."""

    kernel: Kernel
    factor: Tensor | None = None

    def apply(self, x: Tensor) -> Tensor:
        """Sum by the kernel, then scale."""
        sums = self.kernel.apply(x)
        return sums if self.factor is None else self.factor.unsqueeze(-1) * sums

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """As the kernel does it."""
        return self.kernel.added_to(total, x, self.factor)

    def scaled(self, factor: Tensor) -> AllPairs:
        return AllPairs(self.kernel, factor if self.factor is None else factor * self.factor)

    def merged(self, other: Part) -> Part | None:
        """Factors add where the kernel is the same object."""
        if not isinstance(other, AllPairs) or other.kernel is not self.kernel:
            return None
        mine, theirs = (1.0 if part.factor is None else part.factor for part in (self, other))
        return AllPairs(self.kernel, torch.ones_like(self.kernel.loops()) * mine + theirs)

    def rows(self, nodes: Nodes, given: Nodes | None) -> AllPairs:
        """Every node is heard, hence must be given."""
        assert given is None
        return AllPairs(
            self.kernel.rows(nodes), None if self.factor is None else self.factor.index_select(0, nodes.index)
        )


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


@dataclass(frozen=True, eq=False)
class Operator:
    """A sum of parts; the empty sum is zero."""

    parts: tuple[Part, ...] = ()

    def __add__(self, other: Operator) -> Operator:
        parts = list(self.parts)
        for new in other.parts:
            for k, old in enumerate(parts):
                if (sum_of_both := old.merged(new)) is not None:
                    parts[k] = sum_of_both
                    break
            else:
                parts.append(new)
        return Operator(tuple(parts))

    def scaled(self, factor: Tensor) -> Operator:
        """diag(factor) · operator."""
        return Operator(tuple(part.scaled(factor) for part in self.parts))

    def rows(self, nodes: Nodes, given: Nodes | None = None) -> Operator:
        """The rows of some nodes, [k, n]; or [k, m], to be applied to the features of the m nodes ``given`` alone."""
        return Operator(tuple(part.rows(nodes, given) for part in self.parts))

    def apply(self, x: Tensor) -> Tensor:
        """The operator times node features x, [n, F] or [n, H, F]; differentiable in x and in all weights."""
        if not isinstance(x, Tensor):
            raise ValueError(
                "messages of single edges (edge_attr) cannot be summed here: only the clean graph, its views and their "
                "mean know edges one by one; noise in a graph cannot be undone for them"
            )
        total = torch.zeros_like(x) if not self.parts else self.parts[0].apply(x)
        for part in self.parts[1:]:
            total = part.added_to(total, x)
        return total


def at(nodes: Nodes, given: Nodes | None) -> Tensor:
    """Where some nodes stand among those whose features are given, all if None."""
    return nodes.index if given is None else given.position[nodes.index]


def over_nonedges(graph: Graph, kernel: Kernel) -> Operator:
    """Σ_{j ∉ N(i), j≠i} K_ij x_j as all pairs − edges − loops."""
    return Operator((AllPairs(kernel), Sparse(graph.pattern, -kernel.edges()), Diagonal(-kernel.loops())))
