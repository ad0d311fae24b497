"""Many graphs of one size, built together: edges repeated with an offset, a split over the graphs."""

import torch
from torch import Tensor

from rade.data.splits import Split
from rade.data.tables import Tables


def equal_graphs(x: Tensor, edges: Tensor, y: Tensor) -> Tables:
    """Tables of G graphs with n nodes each, from features [G, n, F] and directed edges [G, 2, E] (or [1, 2, E])."""
    graphs, nodes, width = x.shape
    edge_index = edges.expand(graphs, -1, -1).permute(1, 0, 2).reshape(2, -1)
    count = edges.size(2)
    return Tables(
        x=x.reshape(-1, width),
        edge_index=edge_index,
        y=y,
        node_ptr=torch.arange(graphs + 1) * nodes,
        edge_ptr=torch.arange(graphs + 1) * count,
    )


def both_directions(pairs: Tensor) -> Tensor:
    """Simple undirected edges [..., 2, E] as directed ones in both directions, sorted by source and target."""
    edges = torch.cat([pairs, pairs.flip(-2)], dim=-1)
    order = (edges[..., 0, :] * (edges.max() + 1) + edges[..., 1, :]).argsort(dim=-1)
    return edges.gather(-1, order.unsqueeze(-2).expand_as(edges))


def split_graphs(graphs: int, generator: torch.Generator, stride: int = 1) -> Split:
    """60/20/20 % of the graphs at random; ``stride`` turns a graph's number into that of its first node."""
    order = torch.randperm(graphs, generator=generator) * stride
    train, val = graphs * 6 // 10, graphs * 2 // 10
    sizes = [train, val, graphs - train - val]
    return Split(*(part.sort().values for part in torch.split(order, sizes)))
