"""An operator that knows which of its weights stand on the clean edges: these may have messages of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from rade.graph.messages import Messages, along_edges
from rade.graph.nodes import Nodes
from rade.graph.operator import Diagonal, Operator, Picked, Sparse
from rade.graph.sparse import Pattern


@dataclass(frozen=True, eq=False)
class EdgeOperator(Operator):
    """A sum of parts of which ``along`` is what comes along the clean edges, and ``itself`` what a node sends itself.

    ``entries`` are the edges of the whole graph that ``along`` stands on.
    Other parts may have weights on the same pattern, and be merged with it: sums over non-edges are all pairs − edges.
    """

    along: Sparse = field(kw_only=True)
    itself: Diagonal | Picked = field(kw_only=True)
    entries: Tensor | slice = field(default_factory=lambda: slice(None))

    def __add__(self, other: Operator) -> EdgeOperator:
        return replace(self, parts=super().__add__(other).parts)

    def scaled(self, factor: Tensor) -> EdgeOperator:
        """diag(factor) · operator."""
        return replace(
            self, parts=super().scaled(factor).parts, along=self.along.scaled(factor), itself=self.itself.scaled(factor)
        )

    def rows(self, nodes: Nodes, given: Nodes | None = None) -> EdgeOperator:
        """The rows of some nodes; messages of edges stay those of all edges."""
        _, entries = self.along.pattern.block(nodes, given)
        parts = super().rows(nodes, given).parts
        along, itself = self.along.rows(nodes, given), self.itself.rows(nodes, given)
        return EdgeOperator(parts, along=along, itself=itself, entries=entries)

    def apply(self, x: Tensor | Messages) -> Tensor:
        """As for messages of nodes, and what those of edges differ by."""
        if not isinstance(x, Messages):
            return super().apply(x)
        pattern = self.along.pattern
        differ = x.edges[self.entries] - along_edges(x.nodes, pattern)
        sums = super().apply(x.nodes) + pattern.row_sum(self.along.values.unsqueeze(-1) * differ)
        return sums if x.loops is None else self.itself.added_to(sums, x.loops - x.nodes)


def along(pattern: Pattern, edges: Tensor, loops: Tensor) -> EdgeOperator:
    """Weights on the clean edges and on loops."""
    parts = Sparse(pattern, edges), Diagonal(loops)
    return EdgeOperator(parts, along=parts[0], itself=parts[1])
