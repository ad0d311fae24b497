"""An operator that knows which of its weights stand on the clean edges: these may have messages of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from rade.graph.messages import Messages, along_edges
from rade.graph.nodes import Nodes
from rade.graph.operator import Diagonal, Operator, Sparse
from rade.graph.sparse import Pattern


@dataclass(frozen=True, eq=False)
class EdgeOperator(Operator):
    """A sum of parts of which ``along`` is what comes along the clean edges, and ``itself`` what a node sends itself.

    Other parts may have weights on the same pattern, and be merged with it: sums over non-edges are all pairs − edges.
    ``only`` are the nodes whose rows the parts have, all if None.
    """

    along: Sparse = field(kw_only=True)
    itself: Diagonal = field(kw_only=True)
    only: Nodes | None = field(default=None, kw_only=True)

    def __add__(self, other: Operator) -> EdgeOperator:
        return replace(self, parts=super().__add__(other).parts)

    def scaled(self, factor: Tensor) -> EdgeOperator:
        """diag(factor) · operator."""
        parts, along, itself = super().scaled(factor).parts, self.along.scaled(factor), self.itself.scaled(factor)
        return EdgeOperator(parts, along=along, itself=itself)

    def rows(self, nodes: Nodes, given: Nodes | None = None) -> Operator:
        """The rows of some nodes; messages of edges need the features of everybody."""
        rows = super().rows(nodes, given)
        return rows if given is not None else replace(self, parts=rows.parts, only=nodes)

    def apply(self, x: Tensor | Messages) -> Tensor:
        """As for messages of nodes, and what those of edges, and to the nodes themselves, differ by."""
        if not isinstance(x, Messages):
            return super().apply(x)
        pattern = self.along.pattern
        differ = x.edges - along_edges(x.nodes, pattern)
        beyond = pattern.row_sum(self.along.values.unsqueeze(-1) * differ)
        beyond = beyond if x.loops is None else self.itself.added_to(beyond, x.loops - x.nodes)
        return super().apply(x.nodes) + (beyond if self.only is None else beyond.index_select(0, self.only.index))


def along(pattern: Pattern, edges: Tensor, loops: Tensor) -> EdgeOperator:
    """Weights on the clean edges and on loops."""
    parts = Sparse(pattern, edges), Diagonal(loops)
    return EdgeOperator(parts, along=parts[0], itself=parts[1])
