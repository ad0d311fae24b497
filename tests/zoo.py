"""Graphs, layers and models that the tests of `RADE(model)` share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.utils import to_undirected

import rade

Build = Callable[[int, int], torch.nn.Module]

# Every supported layer, with the options that change its aggregation.
LAYERS: dict[str, Build] = {
    "GCNConv": GCNConv,
    "GCNConv-improved": lambda i, o: GCNConv(i, o, improved=True),
    "GCNConv-no-loops": lambda i, o: GCNConv(i, o, add_self_loops=False),
    "GCNConv-sum": lambda i, o: GCNConv(i, o, normalize=False),
    "SGConv": lambda i, o: SGConv(i, o, K=1),
    "GINConv": lambda i, o: GINConv(torch.nn.Linear(i, o)),
    "SAGEConv": SAGEConv,
    "SAGEConv-sum": lambda i, o: SAGEConv(i, o, aggr="sum"),
    "GraphConv": GraphConv,
    "GraphConv-mean": lambda i, o: GraphConv(i, o, aggr="mean"),
}
ATTENTION: dict[str, Build] = {
    "GATConv": GATConv,
    "GATConv-no-loops": lambda i, o: GATConv(i, o, add_self_loops=False),
    "GATConv-heads": lambda i, o: GATConv(i, o, heads=2, concat=False),
}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_edges(nodes: int, edges: int, seed: int = 0) -> Tensor:
    """A simple undirected graph as PyG has it, [2, about 2·edges]."""
    pairs = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=nodes)


def undirected(pairs: list[tuple[int, int]], nodes: int, batch: list[int] | None = None) -> rade.Graph:
    """The graph of some pairs, in both directions."""
    edge = torch.tensor(pairs).t()
    of = None if batch is None else torch.tensor(batch)
    return rade.Graph.from_edge_index(torch.cat([edge, edge.flip(0)], 1), nodes, of)


PATH = undirected([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
NEAR_CLIQUE = undirected([(a, b) for a in range(5) for b in range(a + 1, 5) if (a, b) != (1, 3)], 5)
ISOLATED = undirected([(0, 1), (1, 2), (2, 0), (2, 3)], 5)
CYCLE_CHORD = undirected([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)], 6)
BATCH = undirected([(0, 1), (1, 2), (3, 4), (4, 5), (5, 6)], 7, [0, 0, 0, 1, 1, 1, 1])


def copies(graph: rade.Graph, count: int) -> rade.Graph:
    """``count`` copies of a graph as one batch; the entries of copy k follow those of copy k−1."""
    offset = torch.arange(count)[:, None]
    edge_index = (graph.edge_index[:, None] + offset * graph.num_nodes).reshape(2, -1)
    batch = (graph.batch + offset * graph.num_graphs).flatten()
    return rade.Graph.from_edge_index(edge_index, graph.num_nodes * count, batch)


def error(value: Tensor, target: Tensor) -> float:
    """Largest deviation, relative to the largest entry of the target."""
    size = target.detach().abs().max()
    return float((value - target).detach().abs().max() / size.clamp(min=1e-300))  # both may be all zero


class Net(torch.nn.Module):
    """One or more convolutions with ReLU between, and a linear head."""

    def __init__(self, build: Build, features: int = 8, hidden: int = 6, classes: int = 3, layers: int = 2) -> None:
        super().__init__()
        widths = [features] + [hidden] * layers
        self.convs = torch.nn.ModuleList([build(a, b) for a, b in pairwise(widths)])
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        out: Tensor = self.head(x)
        return out


class GraphNet(Net):
    """The same, pooled to one row per graph."""

    pool = "sum"

    def forward(self, x: Tensor, edge_index: Any, batch: Tensor) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        pooled = x.new_zeros(int(batch[-1]) + 1, x.shape[1]).index_add(0, batch, x)
        if self.pool == "mean":
            pooled = pooled / torch.bincount(batch)[:, None]
        out: Tensor = self.head(pooled)
        return out


def seeded(build: Callable[[], torch.nn.Module], seed: int = 0) -> Any:
    """A model with reproducible parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def training_step(model: Any, *args: Any, labels: Tensor, index: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Forward and backward: what leaves the gradients that `adapt` needs."""
    logits = model.train()(*args, **kwargs)
    rows = slice(None) if index is None else index
    loss = torch.nn.functional.cross_entropy(logits[rows], labels[rows])
    model.zero_grad()
    loss.backward()
    return loss.detach()
