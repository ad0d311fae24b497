"""Linear operators on node features, as sums of parts: clean edges, other pairs, diagonal, all pairs of a graph.

"All non-neighbors" is never a list: it is all pairs of the graph − loops − edges. Build an operator first (parts add
and scale), then apply it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from rade.graph.constant import Constant, Constants, Gather, Matrix, Scale, is_constant
from rade.graph.graph import Graph
from rade.graph.kernels import Kernel, LowRank
from rade.graph.nodes import Nodes
from rade.graph.sparse import Pattern, product
from rade.memory import Memo, remembered

__all__ = ["AllPairs", "Diagonal", "Kernel", "LowRank", "Operator", "Part", "Picked", "Sparse", "at", "over_nonedges"]


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

    def constant(self) -> Constant | None:
        """The same with constant weights, if they are constants without a head axis."""


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

    def constant(self) -> Matrix | None:
        return Matrix(self.pattern, self.values) if _is_constant(self.values) else None


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
        size = nodes.total if given is None else given.count
        return Picked(self.values.index_select(0, nodes.index), at(nodes, given), size)

    def constant(self) -> Scale | None:
        return Scale(self.values[:, None]) if _is_constant(self.values) else None


@dataclass(frozen=True, eq=False)
class Picked(Part):
    """A factor per row, [k] or [k, H], on the features of one node each: some rows of a diagonal."""

    values: Tensor
    nodes: Tensor  # [k] place of each among the given features
    size: int  # how many features are given

    def apply(self, x: Tensor) -> Tensor:
        return self.values.unsqueeze(-1) * x.index_select(0, self.nodes)

    def added_to(self, total: Tensor, x: Tensor) -> Tensor:
        """Multiply and add in one pass."""
        return torch.addcmul(total, self.values.unsqueeze(-1), x.index_select(0, self.nodes))

    def scaled(self, factor: Tensor) -> Picked:
        return Picked(factor * self.values, self.nodes, self.size)

    def merged(self, other: Part) -> Part | None:
        """Factors add where the nodes are the same tensor."""
        if isinstance(other, Picked) and other.nodes is self.nodes:
            return Picked(self.values + other.values, self.nodes, self.size)
        return None

    def rows(self, nodes: Nodes, given: Nodes | None) -> Picked:
        raise NotImplementedError("rows are taken once, from the whole operator")

    def constant(self) -> Gather | None:
        return Gather(self.values[:, None], self.nodes, self.size) if _is_constant(self.values) else None


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

    def constant(self) -> Constant | None:
        if self.factor is not None and not _is_constant(self.factor):
            return None
        return self.kernel.constant(self.factor)


@dataclass(frozen=True, eq=False)
class Operator:
    """A sum of parts; the empty sum is zero."""

    parts: tuple[Part, ...] = ()
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

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

    def transposed(self, x: Tensor) -> Tensor:
        """The transpose times node features x, Σ_i operator_ij x_i: the derivative of ⟨x, operator · y⟩ in y."""
        if not self.parts:
            return torch.zeros_like(x)
        with torch.enable_grad():
            y = torch.zeros_like(x, requires_grad=True)
            (found,) = torch.autograd.grad(self.apply(y), y, x)
        return found

    def apply(self, x: Tensor) -> Tensor:
        """The operator times node features x, [n, F] or [n, H, F]; differentiable in x and in all weights."""
        if not isinstance(x, Tensor):
            raise ValueError(
                "messages of single edges (edge_attr) cannot be summed here: only the clean graph, its views and their "
                "mean know edges one by one; noise in a graph cannot be undone for them"
            )
        if x.dim() == 2 and self.constants is not None:
            return self.constants.apply(x)
        total = torch.zeros_like(x) if not self.parts else self.parts[0].apply(x)
        for part in self.parts[1:]:
            total = part.added_to(total, x)
        return total

    @remembered
    def constants(self) -> Constants | None:
        """The parts with constant weights, if they are such: applied as one, by all layers that share the operator."""
        found = []
        for part in self.parts:
            if (constant := part.constant()) is None:
                return None
            found.append(constant)
        return Constants(tuple(found)) if found else None


def at(nodes: Nodes, given: Nodes | None) -> Tensor:
    """Where some nodes stand among those whose features are given, all if None."""
    return nodes.index if given is None else given.position[nodes.index]


def _is_constant(values: Tensor) -> bool:
    return values.dim() == 1 and is_constant(values)


def over_nonedges(graph: Graph, kernel: Kernel) -> Operator:
    """Σ_{j ∉ N(i), j≠i} K_ij x_j as all pairs − edges − loops."""
    return Operator((AllPairs(kernel), Sparse(graph.pattern, -kernel.edges()), Diagonal(-kernel.loops())))
