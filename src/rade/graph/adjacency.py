"""What travels as ``edge_index``: a clean graph, a random view of it, or another rule of who hears whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rade.graph.graph import Graph
    from rade.graph.nodes import Nodes

T = TypeVar("T")
LayerKey = tuple[Hashable, int]  # a convolution, and which of its steps


class Adjacency(ABC):
    """Stands in the place of a PyG ``edge_index``; how messages are summed over it is registered with `aggregation`.

    Code that takes it for a tensor gets a sentence that says what it is.
    """

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The clean graph under it."""

    @property
    def rows(self) -> int:
        """For how many nodes messages are summed: all of them."""
        return self.graph.num_nodes

    @property
    def fed(self) -> int:
        """Of how many nodes features are needed: all of them."""
        return self.graph.num_nodes

    @property
    def device(self) -> torch.device:
        """Where the graph lives."""
        return self.graph.device

    @property
    def linear(self) -> bool:
        """Whether messages are summed by an `Operator`: linear, so that linear maps and sums may change places."""
        return False

    @property
    def local(self) -> bool:
        """Whether a node hears its `neighborhood` only, and nothing random but the view itself is drawn for it."""
        return False

    def neighborhood(self, nodes: Nodes) -> Nodes:
        """The nodes and all whom they hear; only where the adjacency is `local`."""
        raise TypeError(f"in a {type(self).__name__} a node may hear everybody: it has no neighborhoods")

    def own(self, x: Tensor) -> Tensor:
        """The features of the nodes that are aggregated for: all of them."""
        return x

    def enter(self, layer: Hashable) -> None:  # noqa: B027 - most do not care
        """A convolution is called on it, which makes a difference where every call has a view of its own."""

    def for_layer(self, layer: LayerKey) -> Adjacency:
        """What one convolution aggregates over: itself, unless every layer has a view of its own."""
        return self

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns; adjacencies that live longer than one layer remember it."""
        return build()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy, pickle and inspection ask for these, and take no for an answer
            raise AttributeError(name)
        if name in dir(type(self)):  # a property failed inside: let its own error be seen
            return object.__getattribute__(self, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}: {_GUIDANCE}")

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> Any:
        raise TypeError(f"torch.{getattr(function, '__name__', function)} takes no {cls.__name__!r}: {_GUIDANCE}")

    def __getitem__(self, index: object) -> Any:
        raise TypeError(f"{type(self).__name__!r} cannot be indexed: {_GUIDANCE}")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__!r} cannot be unpacked into source and target: {_GUIDANCE}")


_GUIDANCE = (
    "RADE passes a graph or a random view where the model expects edge_index; only convolutions that RADE converted "
    "can take it. Code that reads edge_index as a tensor can use `.graph.given`, the edges in the "
    "order in which they came"
)
