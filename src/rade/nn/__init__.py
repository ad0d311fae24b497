"""Convolutions on views: PyG's layers with moments, and what a layer of your own derives from."""

from rade.nn.base import CorrectedConv, LayerViews
from rade.nn.convs import GATConv, GCNConv, GINConv, GraphConv, SAGEConv
from rade.nn.more_convs import (
    APPNP,
    AGNNConv,
    ARMAConv,
    ChebConv,
    ClusterGCNConv,
    GatedGraphConv,
    GATv2Conv,
    GCN2Conv,
    GINEConv,
    LGConv,
    MixHopConv,
    SGConv,
    SimpleConv,
    SSGConv,
    TAGConv,
    TransformerConv,
)

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
    "LayerViews",
    "MixHopConv",
    "SAGEConv",
    "SGConv",
    "SSGConv",
    "SimpleConv",
    "TAGConv",
    "TransformerConv",
]
