"""The clean graph: its sorted structure, and the index space of pairs."""

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern

__all__ = ["Graph", "Pattern"]
