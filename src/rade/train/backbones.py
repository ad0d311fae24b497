"""The paper's backbones: an encoder, convolutions with an activation after each, a pooling, a linear head."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import global_add_pool, global_mean_pool

from rade.correction import Adjacency
from rade.graph import Graph
from rade.graph.sparse import Pattern, is_sparse, product, rows_of
from rade.nn import CorrectedConv, GATConv, GCNConv, GINConv, SAGEConv
from rade.nn.linear import linear
from rade.runtime import Recall

FEW = 0.75  # below this part of all nodes, leaving the others out pays
# Number of values of each of the nine atom features of the Open Graph Benchmark.
ATOM_FEATURE_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)


class AtomEncoder(nn.Module):
    """Sum of one embedding per categorical atom feature: a one-hot matrix times one table.

    A sparse product, because rate control differentiates twice and an embedding bag cannot.
    """

    offsets: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = torch.tensor(ATOM_FEATURE_SIZES)
        self.register_buffer("offsets", sizes.cumsum(0) - sizes, persistent=False)
        self.weight = nn.Parameter(torch.empty(int(sizes.sum()), width))
        for rows in torch.split(self.weight.data, list(ATOM_FEATURE_SIZES)):
            nn.init.xavier_uniform_(rows)

    def forward(self, x: Tensor) -> Tensor:
        """x: [n, 9] categories; returns [n, width]."""
        column = (x.long() + self.offsets).flatten()  # ascending within a row: the features' ranges follow each other
        rowptr = torch.arange(0, column.numel() + 1, x.size(1), device=x.device)
        pattern = Pattern.general(rowptr, column, len(self.weight))
        return product(self.weight.new_ones(column.numel()), self.weight, pattern)


class Projection(nn.Module):
    """A linear map of dense or sparse features to the width of the convolutions."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, width)

    def forward(self, x: Tensor) -> Tensor:
        """x: [n, F]; returns [n, width]."""
        return linear(self.linear, x)


# From rows of nodes [n, F] to rows of graphs [graphs, F].
POOLS: dict[str, Callable[..., Tensor]] = {"sum": global_add_pool, "mean": global_mean_pool}


class Backbone(nn.Module):
    """Encoder, convolutions, pooling, linear head.

    `before` acts on the encoded features, `after` on the hidden features behind every activation.
    """

    def __init__(
        self, encoder: nn.Module, convolutions: list[nn.Module], activation: nn.Module, pool: str, head: nn.Linear
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.before: nn.Module = nn.Identity()
        self.convolutions = nn.ModuleList(convolutions)
        self.activation = activation
        self.after: nn.Module = nn.Identity()
        self.pool = pool
        self.head = head

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Graph | Adjacency,
        batch: Tensor | None = None,
        rows: Tensor | None = None,
        local: bool = False,
    ) -> Tensor:
        """x: [n, F]; edge_index: as the convolutions take it; returns [n or graphs, C] logits.

        Of node logits only some ``rows`` may be asked for: the last layer then computes no more than these. So do the
        layers before it where nodes receive from their neighbors alone (``local``), on the clean graph.
        """
        if local and rows is not None and isinstance(edge_index, Graph) and not self._draws:
            nodes = self.heard(edge_index, rows)
            if nodes:
                return self._near(x, edge_index, nodes)
        hidden = self.before(self.encoder(x))
        layers: list[Any] = list(self.convolutions)
        *first, last = layers
        for convolution in first:
            hidden = self.after(self.activation(convolution(hidden, edge_index)))
        if rows is None or isinstance(edge_index, Tensor) or self._draws:
            hidden = self.after(self.activation(last(hidden, edge_index)))
            hidden = hidden if rows is None else hidden.index_select(0, rows)
        else:
            hidden = self.after(self.activation(last.for_targets(rows, hidden, edge_index)))
        logits: Tensor = self.head(hidden if self.pool == "none" else POOLS[self.pool](hidden, batch))
        return logits

    def heard(self, graph: Graph, rows: Tensor) -> list[Tensor]:
        """The nodes that each layer must compute for some rows of the logits, where these are few; else nothing."""
        single = all(isinstance(one, CorrectedConv) for one in self.convolutions)  # nothing beside the convolutions
        nodes = nearby(graph, rows, len(self.convolutions)) if single else []
        return nodes if nodes and nodes[0].numel() <= FEW * graph.num_nodes else []

    def _near(self, x: Tensor, graph: Graph, nodes: list[Tensor]) -> Tensor:
        """Every layer for the nodes that the next one needs; nodes: those whose features are needed, then by layer."""
        layers: list[Any] = list(self.convolutions)
        hidden, sources = x, None  # of all nodes so far
        if not (isinstance(self.encoder, nn.Identity) and layers[0].scores):
            memory = (x.crow_indices(), x.values()) if is_sparse(x) else (x,)
            hidden = self.encoder(_picked.get((*memory, nodes[0]), None, lambda: rows_of(x, nodes[0])))  # picked once
            sources = nodes[0]
        for convolution, targets in zip(layers, nodes[1:]):
            if convolution.scores and sources is not None:
                hidden = hidden.new_zeros(graph.num_nodes, hidden.size(1)).index_copy_(0, sources, hidden)
                sources = None
            hidden = self.activation(convolution.for_targets(targets, hidden, graph, sources=sources))
            sources = targets
        logits: Tensor = self.head(hidden)
        return logits

    @property
    def _draws(self) -> bool:
        """Whether random numbers are drawn for every node's features: they must not depend on the rows wanted."""
        return self.training and not (isinstance(self.before, nn.Identity) and isinstance(self.after, nn.Identity))


def nearby(graph: Graph, rows: Tensor, layers: int) -> list[Tensor]:
    """The nodes within so many layers, the farthest first, the rows themselves last; the same lists each time."""

    def build() -> list[Tensor]:
        found, source, target = [rows.clone()], *graph.edge_index
        for _ in range(layers):
            near = torch.zeros(graph.num_nodes, dtype=torch.bool, device=rows.device)
            near[found[0]] = True
            near[source[near[target]]] = True
            found.insert(0, near.nonzero().squeeze(1))
        return found

    return _nearby.get((rows, graph.pattern.source), layers, build)


_nearby: Recall[list[Tensor]] = Recall()
_picked: Recall[Tensor] = Recall()


def columnwise(module: nn.Module) -> None:
    """Store the matrices of linear layers column by column.

    A product with sparse features reads them so, and would otherwise copy them on each pass; others do not mind.
    """
    for name, parameter in module.named_parameters():
        if name.endswith("weight") and parameter.dim() == 2:
            parameter.data = parameter.data.t().contiguous().t()


Family = tuple[Callable[[int, int], nn.Module], Callable[[], nn.Module]]  # convolution and activation


def _gin(inputs: int, width: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width)))


def _gin_linear(inputs: int, width: int) -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(inputs, width)))


def _gat(inputs: int, width: int) -> nn.Module:
    # One head and no self-loops: the attention aggregator of the paper's experiments.
    return GATConv(inputs, width, heads=1, negative_slope=0.2, add_self_loops=False)


BACKBONES: dict[str, Family] = {
    "gcn": (GCNConv, nn.ReLU),
    "gin": (_gin, nn.ReLU),
    "gat": (_gat, nn.ReLU),
    "sgc": (GCNConv, nn.Identity),
    "gin-lin": (_gin_linear, nn.Identity),
    "sage": (SAGEConv, nn.ReLU),
}


def build_backbone(
    name: str,
    features: int,
    hidden: int,
    outputs: int,
    layers: int = 2,
    pool: str = "none",
    encoder: str = "none",
    projection: bool = False,
) -> Backbone:
    """A backbone by name: `layers` convolutions of width `hidden`, pooled (`none`, `sum`, `mean`), and a linear head.

    encoder: `none` feeds the features as they are; `atom` embeds categorical atom features to width `hidden` first.
    projection: a linear map to width `hidden` before the first convolution.
    """
    convolution, activation = BACKBONES[name]
    encode: nn.Module = AtomEncoder(hidden) if encoder == "atom" else nn.Identity()
    inputs = hidden if encoder == "atom" else features
    if projection:
        encode, inputs = nn.Sequential(encode, Projection(inputs, hidden)), hidden
    widths = [inputs] + [hidden] * layers
    convolutions = [convolution(narrow, wide) for narrow, wide in pairwise(widths)]
    columnwise(encode if projection else convolutions[0])
    return Backbone(encode, convolutions, activation(), pool, nn.Linear(hidden, outputs))
