"""Convolutions on views: PyG's layers with moments, and what a layer of your own derives from."""

from rade.nn.base import CorrectedConv, LayerViews
from rade.nn.convs import GATConv, GCNConv, GINConv, GraphConv, SAGEConv
from rade.nn.more_convs import (
    APPNP,
    ARMAConv,
    ChebConv,
    ClusterGCNConv,
    GatedGraphConv,
    GCN2Conv,
    GINEConv,
    LGConv,
    MixHopConv,
    SGConv,
    SimpleConv,
    SSGConv,
    TAGConv,
)

__all__ = [
    "APPNP",
    "ARMAConv",
    "ChebConv",
    "ClusterGCNConv",
    "CorrectedConv",
    "GATConv",
    "GCN2Conv",
    "GCNConv",
    "GINConv",
    "GINEConv",
    "GatedGraphConv",
    "GraphConv",
    "LGConv",
    "LayerViews",
    "MixHopConv",
    "SAGEConv",
    "SGConv",
    "SSGConv",
    "SimpleConv",
    "TAGConv",
]
