"""Messages where edges have attributes: one for each clean edge, and one that a node would send to anybody else."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rade.graph.sparse import Pattern


@dataclass(frozen=True, eq=False)
class Messages:
    """What is sent along the clean edges, and along added ones; a head axis may stand before the features.

    Attributes:
        nodes: [n, F], to anybody: of a non-edge only the sender is known, its attribute is imputed.
        edges: [E, F], in the graph's order.
    """

    nodes: Tensor
    edges: Tensor

    def detach(self) -> Messages:
        """Without derivatives."""
        return Messages(self.nodes.detach(), self.edges.detach())

    def square(self) -> Messages:
        """Entry by entry."""
        return Messages(self.nodes.square(), self.edges.square())

    def through(self, matrix: Tensor | None) -> Messages:
        """W m of every message, None for the identity."""
        return self if matrix is None else Messages(self.nodes @ matrix.t(), self.edges @ matrix.t())


def to_anybody(messages: Tensor | Messages) -> Tensor:
    """What every node sends to those it is not joined to, [n, ...]."""
    return messages.nodes if isinstance(messages, Messages) else messages


def along_edges(messages: Tensor | Messages, pattern: Pattern) -> Tensor:
    """What is sent along every entry of the clean graph's pattern, [E, ...]."""
    return messages.edges if isinstance(messages, Messages) else messages.index_select(0, pattern.source)
