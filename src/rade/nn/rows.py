"""Which nodes each layer must be computed for, when only some rows of the logits are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.nodes import Nodes, nodes_of
from rade.graph.sparse import is_sparse, rows_of
from rade.nn.base import CorrectedConv
from rade.view.rows import Restricted


@dataclass(frozen=True, eq=False)
class Wanted:
    """The rows of the logits that are wanted.

    Attributes:
        rows: distinct node ids, [k].
        everybody: whether all that the last layer is sent is wanted as well, as rate control does.
    """

    rows: Tensor
    everybody: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """What each convolution aggregates over, and the nodes whose input features are needed, all if None."""

    layers: Sequence[Tensor | Adjacency]
    inputs: Nodes | None = None

    def features(self, x: Tensor) -> Tensor:
        """The input features that are needed; rows of the same matrix are picked once."""
        nodes = self.inputs
        if nodes is None:
            return x
        memory = (x.crow_indices(), x.values()) if is_sparse(x) else (x,)
        return nodes.features.get(memory, None, lambda: rows_of(x, nodes.index))


def plan(adjacency: Adjacency, convolutions: Sequence[CorrectedConv], wanted: Wanted) -> Plan:
    """Backwards from the wanted rows: the last layer there, the one before at all whom they hear, and so on.

    Where a layer hears everybody, or nearly so, those before it are computed whole.
    """
    nodes = nodes_of(wanted.rows, adjacency.graph.num_nodes)
    if nodes.everybody:
        return Plan([adjacency] * len(convolutions))
    if wanted.everybody or not adjacency.local or any(conv.hears_everybody for conv in convolutions):
        return Plan([*[adjacency] * (len(convolutions) - 1), Restricted(adjacency, nodes)])
    # Views are drawn in the order of the layers, as if nothing were left out.
    layers = [adjacency.for_layer(conv.layer_key()) for conv in convolutions]
    for number in reversed(range(len(layers))):
        given = layers[number].neighborhood(nodes)
        if not given.few:
            layers[number] = Restricted(layers[number], nodes)
            return Plan(layers)
        layers[number] = Restricted(layers[number], nodes, given)
        nodes = given
    return Plan(layers, nodes)
