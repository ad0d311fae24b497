"""Weighted sums over the nodes of a graph: on edges, on loops, on a few listed pairs, and on all pairs at once.

"All non-neighbors" is never a list: it is all pairs of the graph − loops − edges. Sums add and scale; build them first,
then apply them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from rade.graph.graph import Graph, Members
from rade.graph.sparse import Pattern, places, product, without_autocast

Matrix = tuple[Pattern, Tensor]  # weights [E] or [E, H] on a pattern


class Everyone(Protocol):
    """Weights K_ij of all pairs of a graph, loops included, that can be summed over j without a list of pairs."""

    def apply(self, x: Tensor) -> Tensor:
        """Σ_j K_ij x_j over all nodes j of i's graph, [n, F] or [n, H, F]."""

    def scaled(self, factor: Tensor) -> Everyone:
        """factor_i K_ij."""


@dataclass(frozen=True, eq=False)
class LowRank(Everyone):
    """K_ij = Σ_r left_ir right_jr within each graph, [n, R] each: weights of non-edges that separate by their ends."""

    graph: Graph
    left: Tensor
    right: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """One weighted sum over each graph per rank; heads share the weights."""
        flat = x.flatten(1)
        if self.graph.num_graphs == 1:
            return (self.left @ (self.right.t() @ flat)).view(-1, *x.shape[1:])
        sums = self.graph.pool(self.right[:, :, None] * flat[:, None]).index_select(0, self.graph.batch)
        return (self.left[:, :, None] * sums).sum(1).view(-1, *x.shape[1:])

    def scaled(self, factor: Tensor) -> LowRank:
        return LowRank(self.graph, factor[:, None] * self.left, self.right)


@dataclass(frozen=True, eq=False)
class Messages:
    """What is sent where edges have attributes: along edges, and by a node to anybody else or to itself.

    Attributes:
        nodes: [n, F] or [n, H, F], to anybody: of a non-edge only the sender is known, its attribute is imputed.
        edges: [E, F] or [E, H, F], in the graph's order.
    """

    nodes: Tensor
    edges: Tensor

    def detach(self) -> Messages:
        """Without derivatives."""
        return Messages(self.nodes.detach(), self.edges.detach())


def to_anybody(messages: Tensor | Messages) -> Tensor:
    """What every node sends to those it is not joined to, [n, ...]."""
    return messages.nodes if isinstance(messages, Messages) else messages


def along_edges(messages: Tensor | Messages, pattern: Pattern) -> Tensor:
    """What is sent along every entry of the clean graph's pattern, [E, ...]."""
    return messages.edges if isinstance(messages, Messages) else messages.index_select(0, pattern.source)


@dataclass(frozen=True, eq=False)
class Sums:
    """x ↦ Σ_j w_ij x_j, with weights in fixed places; None where there are none.

    Attributes:
        graph: the clean graph.
        edges: on its edges, [E] or [E, H].
        loop: of each node on itself, [n] or [n, H].
        listed: on other pairs, additions among them.
        everyone: on all pairs of a graph; those of ``edges`` and ``loop`` that are too many are taken off there.
        along: the part of ``edges`` by which edges send messages of their own, where it is not all of it.
        targets: [k] the nodes whose sums are wanted, all if None.
        sources: [m] the nodes whose features come, all if None; targets must receive from no other.
    """

    graph: Graph
    edges: Tensor | None = None
    loop: Tensor | None = None
    listed: tuple[Matrix, ...] = ()
    everyone: tuple[Everyone, ...] = ()
    along: Tensor | None = None
    targets: Tensor | None = None
    sources: Tensor | None = None

    def __add__(self, other: Sums) -> Sums:
        edges, loop = self.edges, self.loop
        if other.edges is not None:
            edges = other.edges if edges is None else edges + other.edges
        if other.loop is not None:
            loop = other.loop if loop is None else loop + other.loop
        along = self.edges if self.along is None else self.along
        return Sums(self.graph, edges, loop, self.listed + other.listed, self.everyone + other.everyone, along)

    def plus(self, factor: Tensor, other: Sums) -> Sums:
        """These and diag(factor) times other sums; factor [n] or [n, H]."""
        edges, loop, listed, everyone = self.edges, self.loop, self.listed, self.everyone
        if other.edges is not None:
            at_edges = factor.index_select(0, self.graph.pattern.target)
            edges = at_edges * other.edges if edges is None else torch.addcmul(edges, at_edges, other.edges)
        if other.loop is not None:
            loop = factor * other.loop if loop is None else torch.addcmul(loop, factor, other.loop)
        for pattern, values in other.listed:
            listed += ((pattern, factor.index_select(0, pattern.target) * values),)
        for part in other.everyone:
            everyone += (part.scaled(factor),)
        return Sums(self.graph, edges, loop, listed, everyone, self.edges if self.along is None else self.along)

    def scaled(self, factor: Tensor) -> Sums:
        """diag(factor) times the sums; factor [n] or [n, H]."""
        return Sums(self.graph).plus(factor, self)

    def at(self, targets: Tensor | None, sources: Tensor | None = None) -> Sums:
        """The sums of some nodes, from the features of all or of some."""
        return self if targets is None else replace(self, targets=targets, sources=sources)

    def apply(self, x: Tensor | Messages) -> Tensor:
        """The sums of node features x, [n, F] or [n, H, F], or of `Messages`; differentiable in all."""
        if isinstance(x, Messages):
            return self._with_edges(x)
        known = self._constant
        if x.dim() == 2 and isinstance(known, _Constant):
            return cast(Tensor, _Apply.apply(x, known))  # type: ignore[no-untyped-call]
        parts = []
        for pattern, values in known.matrices if isinstance(known, _Constant) else known:
            parts.append(product(values, x, pattern) if x.dim() == 2 else _per_head(values, x, pattern))
        if self.loop is not None:
            loop, own = (self.loop, x) if self.targets is None else (self.loop[self.targets], x[self._own])
            parts.append(loop.unsqueeze(-1) * own)
        for part in self.everyone:
            parts.append(part.apply(x) if self.targets is None else part.apply(x)[self.targets])
        return cast(Tensor, sum(parts)) if parts else torch.zeros_like(x if self.targets is None else x[self._own])

    def transposed(self, x: Tensor) -> Tensor:
        """Σ_i w_ij x_i: the derivative of ⟨x, sums of y⟩ in y."""
        if self.edges is None and self.loop is None and not self.listed and not self.everyone:
            return torch.zeros_like(x)
        with torch.enable_grad():
            y = torch.zeros_like(x, requires_grad=True)
            (found,) = torch.autograd.grad(self.apply(y), y, x)
        return found

    def _with_edges(self, x: Messages) -> Tensor:
        """As for messages of nodes, and what those of edges differ by."""
        pattern, along = self.graph.pattern, self.edges if self.along is None else self.along
        assert along is not None
        beyond = pattern.row_sum(along.unsqueeze(-1) * (x.edges - along_edges(x.nodes, pattern)))
        return self.apply(x.nodes) + (beyond if self.targets is None else beyond[self.targets])

    @cached_property
    def _own(self) -> Tensor:
        """The places of the targets among the nodes whose features come, [k]."""
        assert self.targets is not None
        return self.targets if self.sources is None else places(self.sources, self.graph.num_nodes)[self.targets]

    @cached_property
    def _constant(self) -> _Constant | Sequence[Matrix]:
        """The same with weights that need no derivative and have no heads, applied as one; else those of pairs alone.

        Plain loops: this is asked in every layer of every training step.
        """
        loop, targets, outer = self.loop, self.targets, []
        matrices: Sequence[Matrix] = self.listed
        if self.edges is not None:
            matrices = ((self.graph.pattern, self.edges), *matrices)
        if targets is not None:
            blocks = [(*pattern.block(targets, self.sources), values) for pattern, values in matrices]
            matrices = [(block, values.index_select(0, entries)) for block, entries, values in blocks]
        if loop is not None and (loop.requires_grad or loop.dim() > 1):
            return matrices
        for _, values in matrices:
            if values.requires_grad or values.dim() > 1:
                return matrices
        for part in self.everyone:
            if not isinstance(part, LowRank) or part.left.requires_grad or part.right.requires_grad:
                return matrices
            outer.append((part.left if targets is None else part.left[targets], part.right))
        members = self.graph.members
        to = members if targets is None else members.at(targets)
        by = members if self.sources is None else members.at(self.sources)
        if loop is not None:
            loop = (loop if targets is None else loop[targets])[:, None]
        return _Constant(matrices, loop, outer, to, by, None if targets is None else self._own)


def _per_head(values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    """A sparse product for every head."""
    return torch.stack([product(v, h, pattern) for v, h in zip(values.unbind(1), x.unbind(1))], dim=1)


class _Constant:
    """Sums with constant weights, forward and, as the adjoint, backward."""

    def __init__(
        self,
        matrices: Sequence[Matrix],
        loop: Tensor | None,  # [k, 1]
        outer: Sequence[tuple[Tensor, Tensor]],  # [k, R], [m, R]
        to: Members,  # k
        by: Members,  # m
        own: Tensor | None,  # [k] places of the targets among the m; None: all
        backward: _Constant | None = None,
    ) -> None:
        self.matrices, self.loop, self.outer = matrices, loop, outer
        self.to, self.by, self.own, self.backward = to, by, own, backward
        self.csr = []
        for pattern, values in matrices:
            self.csr.append(pattern.matrix(values))

    @cached_property
    def adjoint(self) -> _Constant:
        """The transpose, made when first gone backward."""
        if self.backward is not None:
            return self.backward
        matrices = []
        for pattern, values in self.matrices:
            there = pattern if pattern.symmetric else pattern.transpose
            matrices.append((there, values.index_select(0, pattern.transposition)))
        outer = []
        for left, right in self.outer:
            outer.append((right, left))
        return _Constant(matrices, self.loop, outer, self.by, self.to, self.own, self)


class _Apply(torch.autograd.Function):
    """y = W x, all parts in the same memory; going backward is an application as well, which can be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: _Constant) -> Tensor:
        """x: [m, F], or [k, F] for an adjoint."""
        ctx.weights = weights
        rows = weights.to.graph.numel()
        if weights.csr:
            total = x.new_empty(rows, x.shape[1])
            torch.addmm(total, weights.csr[0], x, beta=0.0, out=total)  # `@` would first clear and then copy its result
        else:
            total = x.new_zeros(rows, x.shape[1])
        for matrix in weights.csr[1:]:
            torch.addmm(total, matrix, x, out=total)
        if weights.loop is not None:
            if weights.own is None:
                total.addcmul_(weights.loop, x)
            elif weights.backward is None:
                total.addcmul_(weights.loop, x.index_select(0, weights.own))
            else:
                total.index_add_(0, weights.own, weights.loop * x)
        for left, right in weights.outer:
            if weights.to.count == 1:
                total.addmm_(left, right.t() @ x)
                continue
            for to, by in zip(left.unbind(1), right.unbind(1)):
                torch.addmm(total, weights.to.spread(to), weights.by.sums(by, x), out=total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        with without_autocast(gradient.device):
            return cast(Tensor, _Apply.apply(gradient, ctx.weights.adjoint)), None  # type: ignore[no-untyped-call]


def over_nonedges(graph: Graph, left: Tensor, right: Tensor) -> Sums:
    """Σ_{j ∉ N(i), j≠i} Σ_r left_ir right_jr x_j with factors of nodes, [n, R]: all pairs − edges − loops."""
    pattern = graph.pattern
    less = -left
    edges = less.index_select(0, pattern.target) * right.index_select(0, pattern.source)
    loop = less * right
    edges, loop = (edges.squeeze(1), loop.squeeze(1)) if left.shape[1] == 1 else (edges.sum(-1), loop.sum(-1))
    return Sums(graph, edges, loop, everyone=(LowRank(graph, left, right),))
