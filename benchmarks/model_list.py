"""Models that people bring: PyG's model zoo, and other projects' in our own words. See `benchmarks/models.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch_geometric.nn as pyg
from benchmarks.study import normal, random_edges
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, dropout
from torch_geometric.data import Batch, Data
from torch_geometric.utils import dropout_edge, to_dense_adj

import rade

# PyG's Sequential writes code that imports the file it was built in by its bare name; where that fails, it runs the
# forward of whichever Sequential was built last.
sys.modules.setdefault("model_list", sys.modules[__name__])


NODES, FEATURES, CLASSES, GRAPHS = 40, 8, 3, 6

X, EDGES, LABELS = normal(NODES, FEATURES), random_edges(NODES, 90), torch.arange(NODES) % CLASSES
WEIGHT = normal(EDGES.shape[1], seed=1).abs()
ONE_WAY = EDGES[:, EDGES[0] < EDGES[1]]
BATCH = Batch.from_data_list(
    [
        Data(
            x=normal(9 + k, FEATURES, seed=k),
            edge_index=random_edges(9 + k, 14, seed=k),
            edge_attr=normal(random_edges(9 + k, 14, seed=k).shape[1], 4, seed=k),
            y=torch.tensor([k % 2]),
        )
        for k in range(GRAPHS)
    ]
)

Model = Any


@dataclass(frozen=True)
class Entry:
    """One model: how it is built, called and judged, and what `rade.RADE` is told of it."""

    name: str
    group: str
    build: Callable[[], nn.Module]
    call: Callable[[Model], Any] = lambda model: model(X, EDGES)
    loss: Callable[[Any], Tensor] = lambda out: cross_entropy(out[:, :CLASSES], LABELS)
    told: str = ""  # as written after `rade.RADE(net, `
    options: dict[str, Any] = field(default_factory=dict)


def told(text: str) -> dict[str, Any]:
    """Options as a table shows them, and as values."""
    return {"told": text, "options": eval(f"dict({text})", {"rade": rade})}


# -- Models in our own words -------------------------------------------------------------------------------------------


class Tuned(nn.Module):
    """The kind of message-passing network that tuned baselines use: input map, residual maps, norms, dropout, head."""

    def __init__(self, conv: Callable[[int, int], nn.Module], norm: Callable[[int], nn.Module], jump: bool = False):
        super().__init__()
        self.first = nn.Linear(FEATURES, 8)
        self.convs = nn.ModuleList([conv(8, 8) for _ in range(3)])
        self.skips = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.norms = nn.ModuleList([norm(8) for _ in range(3)])
        self.head, self.jump = nn.Linear(8, CLASSES), jump

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        x = dropout(self.first(x), 0.3, self.training)
        total = torch.zeros_like(x)
        for conv, skip, norm in zip(self.convs, self.skips, self.norms):
            x = dropout(norm(conv(x, edge_index) + skip(x)).relu(), 0.3, self.training)
            total = total + x if self.jump else x
        return self.head(total)


class Molecules(nn.Module):
    """The kind of molecule model that OGB has: atoms encoded, GIN layers with norms, a virtual node, mean pooling."""

    def __init__(self, virtual: bool) -> None:
        super().__init__()
        self.encode, self.virtual = nn.Linear(FEATURES, 8), virtual
        self.convs = nn.ModuleList([pyg.GINConv(_mlp(8), train_eps=True) for _ in range(2)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(8) for _ in range(2)])
        self.between, self.head = _mlp(8), nn.Linear(8, 2)

    def forward(self, data: Batch) -> Tensor:
        h, everybody = self.encode(data.x), torch.zeros(data.num_graphs, 8)
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            if self.virtual:
                h = h + everybody[data.batch]
            h = norm(conv(h, data.edge_index))
            if k == 0:
                h = h.relu()
                everybody = everybody + self.between(pyg.global_add_pool(h, data.batch))
        return self.head(pyg.global_mean_pool(h, data.batch))


class BondConv(pyg.MessagePassing):
    """A message-passing layer of one's own that adds an encoded bond to every message."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.bond, self.after = nn.Linear(4, 8), _mlp(8)

    def forward(self, x: Tensor, edge_index: Any, edge_attr: Tensor) -> Tensor:
        return self.after(x + self.propagate(edge_index, x=x, edge_attr=self.bond(edge_attr)))

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return (x_j + edge_attr).relu()


class Bonds(nn.Module):
    def __init__(self, conv: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.encode, self.conv, self.head = nn.Linear(FEATURES, 8), conv(), nn.Linear(8, 2)

    def forward(self, data: Batch) -> Tensor:
        h = self.conv(self.encode(data.x), data.edge_index, data.edge_attr)
        return self.head(pyg.global_mean_pool(h, data.batch))


class Graphwise(nn.Module):
    """Two convolutions, a readout, a head."""

    def __init__(self, readout: Callable[[Tensor, Tensor], Tensor], conv: Any = pyg.GCNConv, width: int = 8) -> None:
        super().__init__()
        self.one, self.two, self.readout = conv(FEATURES, 8), conv(8, 8), readout
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor, edge_index: Any, batch: Tensor) -> Tensor:
        h = self.two(self.one(x, edge_index).relu(), edge_index)
        return self.head(self.readout(h, batch))


class Coarsened(nn.Module):
    """Pools nodes away between convolutions, and with them rows of edge_index."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.pool, self.two = pyg.GCNConv(FEATURES, 8), pyg.TopKPooling(8, 0.5), pyg.GCNConv(8, 2)

    def forward(self, x: Tensor, edge_index: Any, batch: Tensor) -> Tensor:
        h = self.one(x, edge_index).relu()
        h, edge_index, _, batch, *_ = self.pool(h, edge_index, None, batch)
        return pyg.global_mean_pool(self.two(h, edge_index), batch)


class Weighted(nn.Module):
    """Edge weights beside the graph."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv, self.head = conv(FEATURES, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor) -> Tensor:
        return self.head(self.conv(x, edge_index, edge_weight))


class Own(nn.Module):
    """A model whose forward does something with the graph before its convolution."""

    def __init__(self, change: Callable[[Any], Any], conv: Callable[[], nn.Module] | None = None) -> None:
        super().__init__()
        self.change, self.conv = change, pyg.GCNConv(FEATURES, CLASSES) if conv is None else conv()

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv(x, self.change(edge_index))


class Kept(nn.Module):
    """A model that keeps its graph and ignores the argument."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(FEATURES, CLASSES)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.conv(x, EDGES)


class Links(nn.Module):
    """An encoder with a dot-product decoder, as in link prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.GCNConv(FEATURES, 8), pyg.GCNConv(8, 4)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.two(self.one(x, edge_index).relu(), edge_index)


class Variational(nn.Module):
    """The encoder of a variational autoencoder: means and logarithms of deviations."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.mean, self.deviation = pyg.GCNConv(FEATURES, 8), pyg.GCNConv(8, 4), pyg.GCNConv(8, 4)

    def forward(self, x: Tensor, edge_index: Any) -> tuple[Tensor, Tensor]:
        h = self.one(x, edge_index).relu()
        return self.mean(h, edge_index), self.deviation(h, edge_index)


class LightningLike(nn.Module):
    """A module as Lightning has it, which owns the model and computes its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.model = pyg.GCN(FEATURES, 8, 2, CLASSES)

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        return self.model(x, edge_index)

    def training_step(self, batch: Data) -> Tensor:
        return cross_entropy(self(batch.x, batch.edge_index), batch.y)


class OnObject(nn.Module):
    """Takes the Data object, returns log-probabilities and an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = pyg.SAGEConv(FEATURES, 8), pyg.SAGEConv(8, CLASSES)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        h = self.one(data.x, data.edge_index).relu()
        return self.two(h, data.edge_index).log_softmax(1), h


def _mlp(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))


def _pairs(z: Tensor) -> Tensor:
    false = torch.stack([EDGES[0], EDGES[1].roll(7)])
    true = torch.ones(EDGES.shape[1])
    scores = [(z[ends[0]] * z[ends[1]]).sum(1) for ends in (EDGES, false)]
    return binary_cross_entropy_with_logits(torch.cat(scores), torch.cat([true, 0 * true]))


def _of_graphs(out: Any) -> Tensor:
    return cross_entropy(out, BATCH.y)


def _on_batch(model: Model) -> Any:
    return model(BATCH.x, BATCH.edge_index, batch=BATCH.batch)


def _deep(conv: Any) -> nn.Module:
    layers = [pyg.DeepGCNLayer(conv(8, 8), nn.LayerNorm(8), nn.ReLU(), block=block) for block in ("res+", "plain")]
    parts = [(nn.Linear(FEATURES, 8), "x -> x"), *((layer, "x, edge_index -> x") for layer in layers)]
    return pyg.Sequential("x, edge_index", [*parts, (nn.Linear(8, CLASSES), "x -> x")])


class GraphInfomax(pyg.DeepGraphInfomax):
    def __init__(self) -> None:
        def summary(z: Tensor, *_: Any, **__: Any) -> Tensor:
            return z.mean(0).sigmoid()

        def corruption(x: Tensor, edge_index: Any) -> tuple[Tensor, Any]:
            return x[torch.randperm(NODES)], edge_index

        super().__init__(8, pyg.GCN(FEATURES, 8, 1, 8), summary, corruption)


# -- The list ----------------------------------------------------------------------------------------------------------

ZOO, OTHERS, OWN = "PyG's model zoo", "other projects' models, in our own words", "what own code does with the graph"
SIZE = (FEATURES, 8, 2, CLASSES)
GRAPHWISE: dict[str, Any] = {"call": _on_batch, "loss": _of_graphs}
BATCHED: dict[str, Any] = {"call": lambda model: model(BATCH), "loss": _of_graphs}
KEEPS = told("rule=rade.Constant(0.2, 0.1)")

MODELS: tuple[Entry, ...] = (
    Entry("GCN", ZOO, lambda: pyg.GCN(*SIZE)),
    Entry("GraphSAGE", ZOO, lambda: pyg.GraphSAGE(*SIZE)),
    Entry("GraphSAGE, aggr='max'", ZOO, lambda: pyg.GraphSAGE(*SIZE, aggr="max")),
    Entry("GIN", ZOO, lambda: pyg.GIN(*SIZE)),
    Entry("GAT, 4 heads", ZOO, lambda: pyg.GAT(*SIZE, heads=4)),
    Entry("GAT, v2=True", ZOO, lambda: pyg.GAT(*SIZE, v2=True)),
    Entry("PNA", ZOO, lambda: pyg.PNA(*SIZE, aggregators=["mean"], scalers=["identity"], deg=torch.ones(9).long())),
    Entry("EdgeCNN", ZOO, lambda: pyg.EdgeCNN(*SIZE)),
    Entry("GCN, jk='cat', batch norm", ZOO, lambda: pyg.GCN(*SIZE, jk="cat", norm="batch_norm", dropout=0.3)),
    Entry("GCN, jk='max'", ZOO, lambda: pyg.GCN(*SIZE, jk="max")),
    Entry("GAT, jk='lstm', layer norm", ZOO, lambda: pyg.GAT(*SIZE, jk="lstm", norm="layer_norm")),
    Entry("GCN with edge_weight", ZOO, lambda: pyg.GCN(*SIZE), lambda model: model(X, EDGES, edge_weight=WEIGHT)),
    Entry("DeepGCNLayer of GCNConv", ZOO, lambda: _deep(pyg.GCNConv)),
    Entry("DeepGCNLayer of GENConv", ZOO, lambda: _deep(pyg.GENConv)),
    Entry("GraphUNet", ZOO, lambda: pyg.GraphUNet(FEATURES, 8, CLASSES, 2)),
    Entry("PMLP", ZOO, lambda: pyg.PMLP(*SIZE[:2], CLASSES, 2)),
    Entry("LINKX", ZOO, lambda: pyg.LINKX(NODES, FEATURES, 8, CLASSES, 1)),
    Entry("LightGCN", ZOO, lambda: pyg.LightGCN(NODES, 8, 2),
          lambda model: model(EDGES, EDGES), lambda out: -out.sigmoid().log().mean(), **KEEPS),
    Entry("GAE", ZOO, lambda: pyg.GAE(Links()),
          lambda model: model.encode(X, EDGES), _pairs, **told("rule=rade.Constant(0.2, 0.1)")),
    Entry("GAE by its encoder", ZOO, lambda: Links(), lambda model: model(X, EDGES), _pairs),
    Entry("VGAE", ZOO, lambda: pyg.VGAE(Variational()), lambda model: model.encode(X, EDGES), _pairs,
          **told("rule=rade.Constant(0.2, 0.1)")),
    Entry("DeepGraphInfomax", ZOO, GraphInfomax, lambda model: model(X, EDGES),
          lambda out: -(out[0] @ out[2]).sigmoid().log().mean() - (1 - (out[1] @ out[2]).sigmoid()).log().mean(),
          **KEEPS),
    Entry("node embeddings, as in Node2Vec", ZOO, lambda: nn.Embedding(NODES, 8)),
    Entry("MLP", ZOO, lambda: pyg.MLP([FEATURES, 8, CLASSES])),
    Entry("SignedGCN", ZOO, lambda: pyg.SignedGCN(FEATURES, 8, 2), lambda model: model(X, EDGES, EDGES[:, ::2])),
    Entry("AttentiveFP", ZOO, lambda: pyg.AttentiveFP(FEATURES, 8, 2, 4, 2, 1),
          lambda model: model(BATCH.x, BATCH.edge_index, BATCH.edge_attr, BATCH.batch), _of_graphs),
    Entry("NeuralFingerprint", ZOO, lambda: pyg.models.NeuralFingerprint(FEATURES, 8, 2, 2), **GRAPHWISE),
    Entry("RECT_L", ZOO, lambda: pyg.RECT_L(FEATURES, 8), lambda model: model(X, EDGES),
          lambda out: out.square().mean(), **KEEPS),
    Entry("SGFormer", ZOO, lambda: pyg.SGFormer(FEATURES, 8, CLASSES), lambda model: model(X, EDGES, LABELS * 0)),
    Entry("Polynormer", ZOO, lambda: pyg.Polynormer(FEATURES, 8, CLASSES), lambda model: model(X, EDGES, LABELS * 0)),
    Entry("to_hetero(GraphSAGE)", ZOO, lambda: pyg.to_hetero(pyg.GraphSAGE(*SIZE), (["a"], [("a", "to", "a")])),
          lambda model: model({"a": X}, {("a", "to", "a"): EDGES})["a"]),
    Entry("RGCNConv layers", ZOO, lambda: pyg.Sequential(
        "x, edge_index, kind", [(pyg.RGCNConv(FEATURES, CLASSES, 2), "x, edge_index, kind -> x")]),
        lambda model: model(X, EDGES, torch.arange(EDGES.shape[1]) % 2)),
    Entry("HeteroConv", ZOO, lambda: pyg.HeteroConv({("a", "to", "a"): pyg.SAGEConv(FEATURES, CLASSES)}),
          lambda model: model({"a": X}, {("a", "to", "a"): EDGES})["a"]),
    Entry("tuned network: GCN, batch norm, residual", OTHERS, lambda: Tuned(pyg.GCNConv, nn.BatchNorm1d)),
    Entry("tuned network: SAGE, layer norm, sum of layers", OTHERS, lambda: Tuned(pyg.SAGEConv, nn.LayerNorm, True)),
    Entry("tuned network: GAT, batch norm, residual", OTHERS, lambda: Tuned(pyg.GATConv, nn.BatchNorm1d)),
    Entry("molecules: GIN, atoms only", OTHERS, lambda: Molecules(False), **BATCHED,
          **told("readout=rade.Readout(pool='mean')")),
    Entry("molecules: GIN with a virtual node", OTHERS, lambda: Molecules(True), **BATCHED,
          **told("readout=rade.Readout(pool='mean')")),
    Entry("molecules: GINEConv with bonds", OTHERS,
          lambda: Bonds(lambda: pyg.GINEConv(nn.Linear(8, 8), edge_dim=4)), **BATCHED,
          **told("readout=rade.Readout(pool='mean')")),
    Entry("molecules: GATConv with bonds", OTHERS, lambda: Bonds(lambda: pyg.GATConv(8, 8, edge_dim=4)), **BATCHED,
          **told("readout=rade.Readout(pool='mean')")),
    Entry("molecules: a bond layer of one's own", OTHERS, lambda: Bonds(BondConv), **BATCHED),
    Entry("graph classification, sum", OTHERS, lambda: Graphwise(pyg.global_add_pool), **GRAPHWISE,
          **told("readout=rade.Readout(pool='sum')")),
    Entry("the same without saying how it pools", OTHERS, lambda: Graphwise(pyg.global_add_pool), **GRAPHWISE),
    Entry("graph classification, max", OTHERS, lambda: Graphwise(pyg.global_max_pool), **GRAPHWISE, **KEEPS),
    Entry("graph classification, Set2Set", OTHERS, lambda: Graphwise(pyg.Set2Set(8, 2), width=16), **GRAPHWISE,
          **told("rule=rade.NoiseRatio(), readout=rade.Readout(pool='mean')")),
    Entry("graph classification, attention", OTHERS,
          lambda: Graphwise(pyg.AttentionalAggregation(nn.Linear(8, 1))), **GRAPHWISE, **KEEPS),
    Entry("graph classification, TopKPooling", OTHERS, Coarsened, **GRAPHWISE, **KEEPS),
    Entry("APPNP behind an MLP", OTHERS, lambda: pyg.Sequential("x, edge_index", [
        (nn.Linear(FEATURES, CLASSES), "x -> x"), (pyg.APPNP(3, 0.1), "x, edge_index -> x")])),
    Entry("GCNII (GCN2Conv)", OTHERS, lambda: pyg.Sequential("x, edge_index", [
        (nn.Linear(FEATURES, 8), "x -> x0"), (pyg.GCN2Conv(8, 0.1), "x0, x0, edge_index -> x"),
        (nn.Linear(8, CLASSES), "x -> x")])),
    Entry("TransformerConv", OTHERS, lambda: Own(lambda e: e, lambda: pyg.TransformerConv(FEATURES, CLASSES))),
    Entry("EdgeConv, then GCNConv", OTHERS, lambda: pyg.Sequential("x, edge_index", [
        (pyg.EdgeConv(nn.Linear(2 * FEATURES, 8)), "x, edge_index -> x"),
        (pyg.GCNConv(8, CLASSES), "x, edge_index -> x")]),
        **told("rule=rade.Constant(0.2, 0.1)")),
    Entry("link prediction, dot product", OTHERS, Links, lambda model: model(X, EDGES), _pairs),
    Entry("link prediction, its loss said", OTHERS, Links, lambda model: model(X, EDGES), _pairs,
          "readout=rade.Readout(loss=...)", {"readout": rade.Readout(loss=lambda z, rows: NODES * _pairs(z))}),
    Entry("Lightning-like module", OTHERS, LightningLike),
    Entry("Data object in, tuple out", OTHERS, OnObject, lambda model: model(Data(x=X, edge_index=EDGES)),
          lambda out: cross_entropy(out[0], LABELS)),
    Entry("GraphConv with edge_weight", OTHERS, lambda: Weighted(pyg.GraphConv), lambda model: model(X, EDGES, WEIGHT)),
    Entry("GCNConv with edge_weight", OTHERS, lambda: Weighted(pyg.GCNConv), lambda model: model(X, EDGES, WEIGHT)),
    Entry("cached=True", OWN, lambda: Own(lambda e: e, lambda: pyg.GCNConv(FEATURES, CLASSES, cached=True))),
    Entry("edge_index[0] in forward", OWN, lambda: Own(lambda e: torch.stack([e[0], e[1]]))),
    Entry("row, col = edge_index", OWN, lambda: Own(lambda e: torch.stack(tuple(e)))),
    Entry("dropout_edge(edge_index)", OWN, lambda: Own(lambda e: dropout_edge(e)[0])),
    Entry("to_dense_adj(edge_index)", OWN, lambda: Own(lambda e: to_dense_adj(e)[0].nonzero().t())),
    Entry("a graph of its own", OWN, Kept),
    Entry("adj_t", OWN, lambda: pyg.GCN(*SIZE), lambda model: model(
        X, torch.sparse_coo_tensor(EDGES, torch.ones(EDGES.shape[1]), (NODES, NODES)).to_sparse_csr())),
    Entry("edges in one direction", OWN, lambda: pyg.GCN(*SIZE), lambda model: model(X, ONE_WAY)),
    Entry("both directions, each drawn by itself", OWN, lambda: pyg.GCN(*SIZE),
          **told("views=rade.Views(directed=True)")),
    Entry("GAT on a directed graph", OWN, lambda: pyg.GAT(*SIZE), lambda model: model(X, ONE_WAY)),
    Entry("GraphSAGE on a directed graph", OWN, lambda: pyg.GraphSAGE(*SIZE), lambda model: model(X, ONE_WAY)),
)  # fmt: skip
