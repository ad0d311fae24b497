"""Every convolution of PyG with the arguments of one call, and those that RADE draws nothing for, with the reason.

See `benchmarks/models.py`, which tries them. What follows a sum is linear here wherever the layer allows it, so that
the output keeps its expectation and not only the sum. Where pyg-lib is not installed, `pyg_kernels.py` has what three
of them need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch_geometric.nn as pyg
from benchmarks import pyg_kernels
from benchmarks.study import normal, random_edges
from torch import nn
from torch_geometric.nn import conv as convs
from torch_geometric.utils import degree

NODES, FEATURES, OUT, KINDS = 12, 8, 4, 3
pyg_kernels.install()

X, EDGES, PLACES = normal(NODES, FEATURES, seed=1), random_edges(NODES, 20), normal(NODES, 3, seed=2)
COUNT = EDGES.shape[1]
ATTR, KIND, NODE_KIND = normal(COUNT, 3, seed=3), torch.arange(COUNT) % KINDS, torch.arange(NODES) % 2
DEGREES = torch.bincount(degree(EDGES[1], NODES).long())
NORMALS = nn.functional.normalize(PLACES, dim=1)
WEIGHT = normal(COUNT, seed=4).abs() + 0.1
RELATION = ("a", "to", "a")


@dataclass(frozen=True)
class Layer:
    """A convolution, what it is called with, and the part after its sum that is not linear, if there is one."""

    build: Callable[[], nn.Module]
    args: tuple[Any, ...] = (X, EDGES)
    nonlinear: str = ""


def _mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))


def _hetero() -> nn.Module:
    return pyg.HeteroConv({RELATION: pyg.SAGEConv(FEATURES, OUT)})


def _by_relation(kind: Callable[..., nn.Module]) -> Callable[[], nn.Module]:
    return lambda: kind(FEATURES, OUT, (["a"], [RELATION]))


LAYERS: dict[str, Layer] = {
    "SimpleConv": Layer(pyg.SimpleConv),
    "GCNConv": Layer(lambda: pyg.GCNConv(FEATURES, OUT)),
    "ChebConv": Layer(lambda: pyg.ChebConv(FEATURES, OUT, 3)),
    "SAGEConv": Layer(lambda: pyg.SAGEConv(FEATURES, OUT)),
    "GraphConv": Layer(lambda: pyg.GraphConv(FEATURES, OUT), (X, EDGES, WEIGHT)),
    "GatedGraphConv": Layer(lambda: pyg.GatedGraphConv(FEATURES, 2), nonlinear="a gated unit"),
    "ResGatedGraphConv": Layer(lambda: pyg.ResGatedGraphConv(FEATURES, OUT)),
    "GATConv": Layer(lambda: pyg.GATConv(FEATURES, OUT)),
    "GATv2Conv": Layer(lambda: pyg.GATv2Conv(FEATURES, OUT)),
    "TransformerConv": Layer(lambda: pyg.TransformerConv(FEATURES, OUT)),
    "AGNNConv": Layer(pyg.AGNNConv),
    "TAGConv": Layer(lambda: pyg.TAGConv(FEATURES, OUT)),
    "GINConv": Layer(lambda: pyg.GINConv(nn.Linear(FEATURES, OUT))),
    "GINEConv": Layer(lambda: pyg.GINEConv(nn.Linear(FEATURES, OUT), edge_dim=3), (X, EDGES, ATTR)),
    "ARMAConv": Layer(lambda: pyg.ARMAConv(FEATURES, OUT, act=None)),
    "SGConv": Layer(lambda: pyg.SGConv(FEATURES, OUT, K=2)),
    "SSGConv": Layer(lambda: pyg.SSGConv(FEATURES, OUT, alpha=0.1)),
    "APPNP": Layer(lambda: pyg.APPNP(2, 0.1)),
    "MFConv": Layer(lambda: pyg.MFConv(FEATURES, OUT)),
    "RGCNConv": Layer(lambda: pyg.RGCNConv(FEATURES, OUT, KINDS), (X, EDGES, KIND)),
    "FastRGCNConv": Layer(lambda: pyg.FastRGCNConv(FEATURES, OUT, KINDS), (X, EDGES, KIND)),
    "RGATConv": Layer(lambda: pyg.RGATConv(FEATURES, OUT, KINDS), (X, EDGES, KIND)),
    "DNAConv": Layer(lambda: pyg.DNAConv(FEATURES), (normal(NODES, 3, FEATURES, seed=5), EDGES)),
    "PointNetConv": Layer(lambda: pyg.PointNetConv(_mlp(FEATURES + 3, OUT)), (X, PLACES, EDGES)),
    "GMMConv": Layer(lambda: pyg.GMMConv(FEATURES, OUT, 3, 2), (X, EDGES, ATTR)),
    "NNConv": Layer(lambda: pyg.NNConv(FEATURES, OUT, nn.Linear(3, FEATURES * OUT)), (X, EDGES, ATTR)),
    "CGConv": Layer(lambda: pyg.CGConv(FEATURES, 3), (X, EDGES, ATTR)),
    "EdgeConv": Layer(lambda: pyg.EdgeConv(_mlp(2 * FEATURES, OUT))),
    "PPFConv": Layer(lambda: pyg.PPFConv(_mlp(FEATURES + 4, OUT)), (X, PLACES, NORMALS, EDGES)),
    "FeaStConv": Layer(lambda: pyg.FeaStConv(FEATURES, OUT)),
    "PointTransformerConv": Layer(lambda: pyg.PointTransformerConv(FEATURES, OUT), (X, PLACES, EDGES)),
    "LEConv": Layer(lambda: pyg.LEConv(FEATURES, OUT)),
    "PNAConv": Layer(lambda: pyg.PNAConv(FEATURES, OUT, ["mean", "max"], ["identity"], DEGREES)),
    "ClusterGCNConv": Layer(lambda: pyg.ClusterGCNConv(FEATURES, OUT)),
    "GENConv": Layer(lambda: pyg.GENConv(FEATURES, OUT, num_layers=1, bias=True)),
    "GCN2Conv": Layer(lambda: pyg.GCN2Conv(FEATURES, 0.1), (X, X, EDGES)),
    "WLConvContinuous": Layer(pyg.WLConvContinuous),
    "FiLMConv": Layer(lambda: pyg.FiLMConv(FEATURES, OUT)),
    "SuperGATConv": Layer(lambda: pyg.SuperGATConv(FEATURES, OUT)),
    "FAConv": Layer(lambda: pyg.FAConv(FEATURES), (X, X, EDGES)),
    "EGConv": Layer(lambda: pyg.EGConv(FEATURES, OUT, num_heads=2)),
    "PDNConv": Layer(lambda: pyg.PDNConv(FEATURES, OUT, 3, 4), (X, EDGES, ATTR)),
    "GeneralConv": Layer(lambda: pyg.GeneralConv(FEATURES, OUT)),
    "HEATConv": Layer(lambda: pyg.HEATConv(FEATURES, OUT, 2, KINDS, 2, 3, 2), (X, EDGES, NODE_KIND, KIND, ATTR)),
    "SignedConv": Layer(lambda: pyg.SignedConv(FEATURES, OUT, first_aggr=True), (X, EDGES, EDGES[:, ::2])),
    "HGTConv": Layer(_by_relation(pyg.HGTConv), ({"a": X}, {RELATION: EDGES}), nonlinear="a gelu"),
    "HANConv": Layer(_by_relation(pyg.HANConv), ({"a": X}, {RELATION: EDGES}), nonlinear="a relu"),
    "HeteroConv": Layer(_hetero, ({"a": X}, {RELATION: EDGES})),
    "LGConv": Layer(pyg.LGConv),
    "PointGNNConv": Layer(
        lambda: pyg.PointGNNConv(_mlp(FEATURES, 3), _mlp(FEATURES + 3, OUT), nn.Linear(OUT, FEATURES)),
        (X, PLACES, EDGES),
    ),
    "GPSConv": Layer(
        lambda: pyg.GPSConv(FEATURES, pyg.GCNConv(FEATURES, FEATURES), norm=None, dropout=0.0), nonlinear="a network"
    ),
    "AntiSymmetricConv": Layer(lambda: pyg.AntiSymmetricConv(FEATURES, act=None)),
    "DirGNNConv": Layer(lambda: pyg.DirGNNConv(pyg.SAGEConv(FEATURES, OUT))),
    "MixHopConv": Layer(lambda: pyg.MixHopConv(FEATURES, OUT)),
    "HypergraphConv": Layer(lambda: pyg.HypergraphConv(FEATURES, OUT), (X, torch.stack([EDGES[0], EDGES[1] % 5]))),
    "DynamicEdgeConv": Layer(lambda: pyg.DynamicEdgeConv(_mlp(2 * FEATURES, OUT), 3), (X,)),
    "GravNetConv": Layer(lambda: pyg.GravNetConv(FEATURES, OUT, 3, 4, 3), (X,)),
    "SplineConv": Layer(lambda: pyg.SplineConv(FEATURES, OUT, 3, 3), (X, EDGES, ATTR.sigmoid())),
}
OTHERS = {
    "XConv": "nothing to draw: it sorts nearest neighbors into a matrix, and sums over no edges",
    "PANConv": "not tried: needs torch-sparse, and sums over a sparse matrix of its own",
    "CuGraphSAGEConv": "not tried: needs cuGraph, and takes its own graphs",
    "CuGraphGATConv": "not tried: needs cuGraph, and takes its own graphs",
    "CuGraphRGCNConv": "not tried: needs cuGraph, and takes its own graphs",
    "FusedGATConv": "not tried: needs dgNN, and takes compressed graphs",
    "WLConv": "nothing to draw: it hashes neighborhoods, and has no gradient",
    "MeshCNNConv": "nothing to draw: a mesh has four neighbors for each edge, in order",
}
EVERY = tuple(name for name in convs.__all__ if name != "MessagePassing")
