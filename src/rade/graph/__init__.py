"""The clean graph: its sorted structure, the index space of pairs, and linear operators on node features."""

from rade.graph.graph import Graph
from rade.graph.operator import AllPairs, Diagonal, Kernel, LowRank, Operator, Part, Sparse, complement
from rade.graph.sparse import Pattern

__all__ = ["AllPairs", "Diagonal", "Graph", "Kernel", "LowRank", "Operator", "Part", "Pattern", "Sparse", "complement"]
