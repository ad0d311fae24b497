"""The clean graph: its sorted structure, the index space of pairs, and linear operators on node features."""

from rade.graph.adjacency import Adjacency
from rade.graph.build import graph_of
from rade.graph.graph import Graph
from rade.graph.messages import Messages
from rade.graph.operator import AllPairs, Diagonal, Kernel, LowRank, Operator, Part, Sparse, over_nonedges
from rade.graph.sparse import Pattern

__all__ = [
    "Adjacency",
    "AllPairs",
    "Diagonal",
    "Graph",
    "Kernel",
    "LowRank",
    "Messages",
    "Operator",
    "Part",
    "Pattern",
    "Sparse",
    "graph_of",
    "over_nonedges",
]
