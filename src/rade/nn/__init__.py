"""Corrected convolutions: PyG's layers that also take a `Graph`, a `View` or a `MeanView` as ``edge_index``."""

from rade.nn.agnn import AGNNConv
from rade.nn.appnp import APPNP, LGConv
from rade.nn.arma import ARMAConv
from rade.nn.base import CorrectedConv
from rade.nn.cluster import ClusterGCNConv
from rade.nn.gat import GATConv
from rade.nn.gatv2 import GATv2Conv
from rade.nn.gcn import GCNConv, SGConv
from rade.nn.gcn2 import GatedGraphConv, GCN2Conv
from rade.nn.gin import GINConv
from rade.nn.gine import GINEConv
from rade.nn.sage import GraphConv, SAGEConv, SimpleConv
from rade.nn.tag import ChebConv, MixHopConv, SSGConv, TAGConv
from rade.nn.transformer import TransformerConv

__all__ = [
    "APPNP",
    "AGNNConv",
    "ARMAConv",
    "ChebConv",
    "ClusterGCNConv",
    "CorrectedConv",
    "GATConv",
    "GATv2Conv",
    "GCN2Conv",
    "GCNConv",
    "GINConv",
    "GINEConv",
    "GatedGraphConv",
    "GraphConv",
    "LGConv",
    "MixHopConv",
    "SAGEConv",
    "SGConv",
    "SSGConv",
    "SimpleConv",
    "TAGConv",
    "TransformerConv",
]
