"""The clean-up that every graph gets: both directions, no duplicates, no self-loops."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


def clean_edges(source: IntArray, target: IntArray, num_nodes: int) -> Tensor:
    """The undirected simple graph of some pairs, sorted: edge_index [2, 2|E|]."""
    proper = source != target
    source, target = source[proper], target[proper]
    # One int64 key per directed edge sorts and merges in a single pass; n² stays below 2⁶³ for n up to 3·10⁹.
    keys = np.concatenate([source * num_nodes + target, target * num_nodes + source])
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]]
    return torch.from_numpy(np.stack(np.divmod(keys, max(num_nodes, 1))))


def edge_slices(edge_index: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted edges of a disjoint union, renumbered within each graph, and where each graph's edges begin."""
    graph = torch.searchsorted(node_ptr, edge_index[0], right=True) - 1
    counts = torch.bincount(graph, minlength=node_ptr.numel() - 1)
    return edge_index - node_ptr[graph], pointer(counts)


def pointer(counts: Tensor) -> Tensor:
    """Where each of several consecutive pieces begins, and the end of the last: [len(counts) + 1]."""
    return torch.cat([counts.new_zeros(1, dtype=torch.long), counts.long().cumsum(0)])
