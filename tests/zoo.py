"""Graphs, layers and models that the tests of `RADE(model)` share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

import rade
from rade.moments import Coefficients, Normalised

Build = Callable[[int, int], torch.nn.Module]

# Every supported layer, with the options that change its aggregation.
LAYERS: dict[str, Build] = {
    "GCNConv": pyg.GCNConv,
    "GCNConv-improved": lambda i, o: pyg.GCNConv(i, o, improved=True),
    "GCNConv-no-loops": lambda i, o: pyg.GCNConv(i, o, add_self_loops=False),
    "GCNConv-sum": lambda i, o: pyg.GCNConv(i, o, normalize=False),
    "SGConv": lambda i, o: pyg.SGConv(i, o, K=1),
    "TAGConv": lambda i, o: pyg.TAGConv(i, o, K=1),
    "SSGConv": lambda i, o: pyg.SSGConv(i, o, alpha=0.1, K=1),
    "MixHopConv": lambda i, o: pyg.MixHopConv(i, o, powers=[1]),
    "ChebConv": lambda i, o: pyg.ChebConv(i, o, K=2),
    "GINConv": lambda i, o: pyg.GINConv(torch.nn.Linear(i, o)),
    "SAGEConv": pyg.SAGEConv,
    "SAGEConv-sum": lambda i, o: pyg.SAGEConv(i, o, aggr="sum"),
    "GraphConv": pyg.GraphConv,
    "GraphConv-mean": lambda i, o: pyg.GraphConv(i, o, aggr="mean"),
}
ATTENTION: dict[str, Build] = {
    "GATConv": pyg.GATConv,
    "GATConv-no-loops": lambda i, o: pyg.GATConv(i, o, add_self_loops=False),
    "GATConv-heads": lambda i, o: pyg.GATConv(i, o, heads=2, concat=False),
}
EVERY = LAYERS | ATTENTION
NORMALISED: dict[str, Callable[[rade.Graph, torch.dtype], Coefficients]] = {
    "sum": Normalised.sum,
    "mean": Normalised.mean_of,
    "symmetric": Normalised.symmetric,
}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_edges(nodes: int, edges: int, seed: int = 0) -> Tensor:
    """A simple undirected graph as PyG has it, [2, about 2·edges]."""
    pairs = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return to_undirected(pairs[:, pairs[0] != pairs[1]], num_nodes=nodes)


NODES, FEATURES, CLASSES = 40, 8, 3
X, EDGES, LABELS = normal(NODES, FEATURES), random_edges(NODES, 80), torch.arange(NODES) % CLASSES
ONE_WAY = EDGES[:, EDGES[0] < EDGES[1]]


def batch_of(*sizes: int) -> Batch:
    """Random graphs of so many nodes each."""
    graphs = [Data(x=normal(n, FEATURES, seed=n + k), edge_index=random_edges(n, 2 * n)) for k, n in enumerate(sizes)]
    return Batch.from_data_list(graphs)


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


class Ends(Net):
    """Two GCN layers, and what a function makes of the logits."""

    def __init__(self, end: Callable[[Tensor], Any]) -> None:
        super().__init__(pyg.GCNConv)
        self.end = end

    def forward(self, x: Tensor, edge_index: Any, *rest: Any) -> Any:
        return self.end(super().forward(x, edge_index), *rest)


def stacked(*layers: torch.nn.Module) -> torch.nn.Module:
    """One layer after the other; a layer may be called again."""
    found: torch.nn.Module = pyg.Sequential("x, edge_index", [(layer, "x, edge_index -> x") for layer in layers])
    return found


class TwoHeads(Net):
    """Which of two linear layers is the head cannot be told."""

    def __init__(self) -> None:
        super().__init__(pyg.GCNConv)
        self.gate = torch.nn.Linear(6, 1)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.head(x) * self.gate(x).sigmoid()


@contextmanager
def precision(name: str) -> Iterator[None]:
    """One thread, and numbers of this kind."""
    threads, before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(vars(torch)[name])
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(before)


def seeded(build: Callable[[], torch.nn.Module], seed: int = 0) -> Any:
    """A model with reproducible parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def wrapped(net: Any = None, variant: str = "of", seed: int = 0, **options: Any) -> Any:
    """A model in `rade.RADE`, by default two GCN layers, with a generator of its own."""
    net = seeded(lambda: Net(LAYERS["GCNConv"])) if net is None else net
    return rade.RADE(net, variant, generator=torch.Generator().manual_seed(seed), **options)


def adapting(net: Any = None, variant: str = "of", **options: Any) -> Any:
    """The same with rates that adapt by the paper's rule, unless another is given."""
    return wrapped(net, variant, **{"rule": rade.GradNorm(), **options})


def training_step(model: Any, *args: Any, labels: Tensor, index: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Forward and backward: what leaves the gradients that `adapt` needs."""
    logits = model.train()(*args, **kwargs)
    rows = slice(None) if index is None else index
    loss = torch.nn.functional.cross_entropy(logits[rows], labels[rows])
    model.zero_grad()
    loss.backward()
    return loss.detach()
