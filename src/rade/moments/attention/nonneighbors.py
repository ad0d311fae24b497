"""Non-neighbors as lists of pairs: all of them, for small graphs, or uniform draws for every node at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.sparse import Pattern, row_pointer


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """All ordered pairs (i, j ≠ i) of a batch by target, [P]; where the edges stand among them, and the others."""

    target: Tensor
    source: Tensor
    rowptr: Tensor  # [n + 1]
    edge: Tensor  # [E] position of each clean edge
    other: Tensor  # [P − E] positions of the non-edges
    pattern: Pattern  # of the non-edges


def ordered_pairs(graph: Graph) -> int:
    """The number of ordered pairs."""
    return int((graph.sizes * (graph.sizes - 1)).sum())


def list_pairs(graph: Graph) -> ListedPairs:
    """All pairs of every graph, in O(Σ n_g²)."""
    return graph.once("all pairs", lambda: _listed(graph))


def _listed(graph: Graph) -> ListedPairs:
    count = graph.size - 1  # sources of each node
    target = torch.repeat_interleave(count)
    rowptr = row_pointer(target, graph.num_nodes)
    source = graph.ptr[graph.batch[target]] + torch.arange(target.numel(), device=graph.device) - rowptr[target]
    source = source + (source >= target)  # nobody is its own source
    edges, n = graph.pattern, graph.num_nodes
    edge = torch.searchsorted(target * n + source, edges.target * n + edges.source)
    other = torch.ones_like(target, dtype=torch.bool).index_fill(0, edge, False).nonzero().squeeze(1)
    pattern = Pattern.general(row_pointer(target[other], n), source[other], n)
    return ListedPairs(target, source, rowptr, edge, other, pattern)


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
