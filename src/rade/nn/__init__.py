"""Corrected convolutions: PyG's layers that also take a `Graph`, a `View` or a `MeanView` as ``edge_index``."""

from rade.nn.base import CorrectedConv
from rade.nn.gat import GATConv
from rade.nn.gcn import GCNConv, SGConv
from rade.nn.gin import GINConv
from rade.nn.sage import GraphConv, SAGEConv

__all__ = ["CorrectedConv", "GATConv", "GCNConv", "GINConv", "GraphConv", "SAGEConv", "SGConv"]
