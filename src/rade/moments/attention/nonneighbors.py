"""Uniform draws from the non-neighbors of every node at once."""

from __future__ import annotations

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern, row_pointer


def sample_nonneighbors(graph: Graph, samples: int, generator: torch.Generator | None) -> tuple[Pattern, Tensor]:
    """``samples`` non-neighbors of each node that has any, with replacement: the distinct pairs and how often each.

    No rejection: the r-th non-neighbor is r + (number of excluded nodes before it), a binary search in the sorted
    neighbors and the node itself.
    """
    keys, first = graph.once("excluded nodes", lambda: _excluded(graph))
    nodes = (graph.nonneighbors > 0).nonzero().squeeze(1)
    uniform = torch.rand(nodes.numel(), samples, dtype=torch.double, generator=generator, device=graph.device)
    count = graph.nonneighbors[nodes][:, None]
    rank = torch.minimum((uniform * count).long(), count - 1)
    offset = (nodes * graph.num_nodes)[:, None]
    before = torch.searchsorted(keys, (offset + rank).flatten(), right=True).view_as(rank) - first[nodes][:, None]
    source = (rank + before + graph.ptr[graph.batch[nodes]][:, None]).sort(1).values
    return distinct_pairs(nodes.repeat_interleave(samples), source.flatten(), graph.num_nodes)


def distinct_pairs(target: Tensor, source: Tensor, nodes: int) -> tuple[Pattern, Tensor]:
    """A list of pairs as a pattern without repetitions, and the number of times each was listed."""
    pairs, times = torch.unique(target * nodes + source, return_counts=True)
    target, source = pairs // nodes, pairs % nodes
    return Pattern.general(row_pointer(target, nodes), source, nodes), times


def _excluded(graph: Graph) -> tuple[Tensor, Tensor]:
    """Sorted keys target·n + (excluded node − number excluded before it), and the first key of each node."""
    n, device = graph.num_nodes, graph.device
    nodes = torch.arange(n, device=device)
    target = torch.cat([graph.pattern.target, nodes])
    local = torch.cat([graph.pattern.source, nodes]) - graph.ptr[graph.batch[target]]
    pairs = (target * n + local).sort().values
    pointer = row_pointer(target, n)
    position = torch.arange(pairs.numel(), device=device) - pointer[pairs // n]
    return pairs - position, pointer[:-1]
