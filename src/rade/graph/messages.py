"""Messages where edges have attributes: one for each clean edge, and one that a node would send to anybody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.sparse import Pattern


@dataclass(frozen=True, eq=False)
class Messages:
    """What is sent along the clean edges, and along added ones; a head axis may stand before the features.

    Attributes:
        nodes: [n, F], to anybody: of a non-edge only the sender is known, its attribute is imputed.
        edges: [E, F], in the graph's order.
        loops: [n, F], from each node to itself, where that is neither; None: as to anybody.
    """

    nodes: Tensor
    edges: Tensor
    loops: Tensor | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> Messages:
        """All messages changed in the same way."""
        loops = None if self.loops is None else change(self.loops)
        return Messages(change(self.nodes), change(self.edges), loops)

    def detach(self) -> Messages:
        """Without derivatives."""
        return self.each(torch.Tensor.detach)

    def square(self) -> Messages:
        """Entry by entry."""
        return self.each(torch.square)

    def through(self, matrix: Tensor | None) -> Messages:
        """W m of every message, None for the identity."""
        return self if matrix is None else self.each(lambda messages: messages @ matrix.t())


def to_anybody(messages: Tensor | Messages) -> Tensor:
    """What every node sends to those it is not joined to, [n, ...]."""
    return messages.nodes if isinstance(messages, Messages) else messages


def to_itself(messages: Tensor | Messages) -> Tensor:
    """What every node sends to itself, [n, ...]."""
    own = messages.loops if isinstance(messages, Messages) else None
    return to_anybody(messages) if own is None else own


def along_edges(messages: Tensor | Messages, pattern: Pattern) -> Tensor:
    """What is sent along every entry of the clean graph's pattern, [E, ...]."""
    return messages.edges if isinstance(messages, Messages) else messages.index_select(0, pattern.source)
