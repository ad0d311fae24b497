"""Operators whose weights are constants: one step of automatic differentiation, whatever their number of parts.

A sum of parts written part by part costs a pass over the features and a node of autograd for each; here every part adds
to the same memory, forward and, as the adjoint, backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from rade.graph.sparse import Pattern, in_full_precision
from rade.memory import Memo, remembered


def is_constant(*values: Tensor) -> bool:
    """Whether no derivative is asked for, in either mode."""
    return not any(value.requires_grad or unpack_dual(value).tangent is not None for value in values)  # type: ignore[no-untyped-call]


class Constant(Protocol):
    """A summand with constant weights, from [m, F] to [k, F]."""

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        """total + W x in the memory of ``total``, or W x in new memory."""

    def adjoint(self) -> Constant:
        """Wᵀ."""


@dataclass(frozen=True, eq=False)
class Matrix(Constant):
    """Weights [E] on a pattern."""

    pattern: Pattern
    values: Tensor
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @remembered
    def csr(self) -> Tensor:
        """As a matrix."""
        return self.pattern.matrix(self.values)

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        if total is not None:
            return torch.addmm(total, self.csr, x, out=total)
        out = x.new_empty(self.pattern.rows, x.shape[1])
        return torch.addmm(out, self.csr, x, beta=0.0, out=out)  # `@` would first clear and then copy its result

    def adjoint(self) -> Matrix:
        return Matrix(self.pattern.transpose, self.pattern.transposed_values(self.values))


@dataclass(frozen=True, eq=False)
class Scale(Constant):
    """A factor for every node, [n, 1]."""

    values: Tensor

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        return self.values * x if total is None else total.addcmul_(self.values, x)

    def adjoint(self) -> Scale:
        return self


@dataclass(frozen=True, eq=False)
class Gather(Constant):
    """Factors [k, 1] times the features of some of m nodes, at ``place`` [k]."""

    values: Tensor
    place: Tensor
    size: int

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        return Scale(self.values).add(total, x.index_select(0, self.place))

    def adjoint(self) -> Scatter:
        return Scatter(self.values, self.place, self.size)


@dataclass(frozen=True, eq=False)
class Scatter(Constant):
    """Factors [k, 1] times features, added at ``place`` [k] of m nodes."""

    values: Tensor
    place: Tensor
    size: int

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        total = x.new_zeros(self.size, x.shape[1]) if total is None else total
        return total.index_add_(0, self.place, self.values * x)

    def adjoint(self) -> Gather:
        return Gather(self.values, self.place, self.size)


@dataclass(frozen=True, eq=False)
class Outer(Constant):
    """Σ_r left_ir right_jr for i and j of the same graph, [k, R] and [m, R]; which graph is told for several ones."""

    left: Tensor
    right: Tensor
    graphs: int
    left_graph: Tensor  # [k]
    right_graph: Tensor  # [m]

    def add(self, total: Tensor | None, x: Tensor) -> Tensor:
        total = x.new_zeros(len(self.left), x.shape[1]) if total is None else total
        if self.graphs == 1:
            return total.addmm_(self.left, self.right.t() @ x)
        for left, right in zip(torch.split(self.left, 1, 1), torch.split(self.right, 1, 1)):
            sums = x.new_zeros(self.graphs, x.shape[1]).index_add_(0, self.right_graph, right * x)
            total.addcmul_(left, sums.index_select(0, self.left_graph))
        return total

    def adjoint(self) -> Outer:
        return Outer(self.right, self.left, self.graphs, self.right_graph, self.left_graph)


@dataclass(frozen=True, eq=False)
class Constants:
    """A sum of at least one summand."""

    parts: tuple[Constant, ...]
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @remembered
    def adjoint(self) -> Constants:
        """The transpose, made when first gone backward."""
        return Constants(tuple(part.adjoint() for part in self.parts))

    def apply(self, x: Tensor) -> Tensor:
        """The sum times features [m, F]; differentiable in them to any order."""
        return cast(Tensor, _Apply.apply(x, self, None))  # type: ignore[no-untyped-call]


class _Apply(torch.autograd.Function):
    """y = W x; ``back`` is Wᵀ where it is known, else W knows it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: Constants, back: Constants | None) -> Tensor:
        ctx.operator, ctx.back = operator, back
        total = operator.parts[0].add(None, x)
        for part in operator.parts[1:]:
            total = part.add(total, x)
        return total

    @staticmethod
    @in_full_precision
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        back = ctx.operator.adjoint if ctx.back is None else ctx.back
        return cast(Tensor, _Apply.apply(gradient, back, ctx.operator)), None, None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, x_t: Tensor, *_: None) -> Tensor:
        return cast(Tensor, _Apply.apply(x_t, ctx.operator, ctx.back))  # type: ignore[no-untyped-call]
