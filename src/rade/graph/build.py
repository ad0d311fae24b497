"""One `Graph` for each ``edge_index`` tensor, as long as the tensor lives unchanged."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from rade.graph.graph import Graph

Parts = tuple[Tensor | None, Tensor | None]  # batch, ptr


class GraphReuse:
    """A memory of graphs keyed by the identity of the tensors that they were built from.

    An in-place change shows in the tensor's version counter; a tensor that dies takes its graph along. Copies and
    pickles start empty.
    """

    def __init__(self) -> None:
        self._graphs: dict[int, tuple[weakref.ref[Tensor], tuple[Any, ...], Graph]] = {}

    def get(self, edge_index: Any, num_nodes: int | None, parts: Parts, build: Callable[[], Graph]) -> Graph:
        """The graph of ``edge_index``, built on first sight; ``parts`` are the tensors that tell graphs apart, if any.

        Graphs hold on to their parts, so that the identity of one cannot pass to another tensor.
        """
        if isinstance(edge_index, Graph):
            return edge_index
        if not isinstance(edge_index, Tensor) or edge_index.is_inference():  # inference tensors count no versions
            return build()
        key = id(edge_index)
        stamp = (edge_index._version, num_nodes, *map(_stamp, parts))
        found = self._graphs.get(key)
        if found is not None and found[0]() is edge_index and found[1] == stamp:
            return found[2]
        graph = build()
        graphs = self._graphs
        self._graphs[key] = (weakref.ref(edge_index, lambda _: graphs.pop(key, None)), stamp, graph)
        return graph

    def __len__(self) -> int:
        return len(self._graphs)

    def __reduce__(self) -> tuple[type[GraphReuse], tuple[()]]:
        return GraphReuse, ()


def _stamp(part: Tensor | None) -> tuple[int, int]:
    if part is None:
        return (0, 0)
    return (id(part), 0 if part.is_inference() else part._version)
