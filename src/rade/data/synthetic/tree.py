"""Tree-NeighborsMatch: the root of a binary tree must look up one of its leaves."""

import torch

from rade.data.dataset import Dataset
from rade.data.errors import DataError
from rade.data.splits import FixedSplit
from rade.data.synthetic.common import synthetic_dataset
from rade.data.synthetic.copies import both_directions, equal_graphs, split_graphs


def tree_neighbors_match(trees: int = 2000, depth: int = 3, seed: int = 0) -> Dataset:
    """Many binary trees in one graph; the root must name the value of the leaf that has its key.

    Each leaf holds one of 2^depth keys and one of 2^depth values, both permuted at random; the root holds a key.
    The information of all leaves must pass through two edges, and fewer layers than ``depth`` see no leaf.
    Features: a column per key, one per value, one for inner nodes. The splits hold root nodes; ``batch`` tells
    the trees apart. (Alon and Yahav 2021, "On the bottleneck of graph neural networks".)
    """
    options = dict(locals())
    if not 1 <= depth <= 8 or trees < 5:
        raise DataError(f"tree_neighbors_match needs 1 ≤ depth ≤ 8 and trees ≥ 5, got {depth} and {trees}")
    generator = torch.Generator().manual_seed(seed)
    leaves = 2**depth
    keys, values = (torch.rand(trees, leaves, generator=generator).argsort(dim=1) for _ in range(2))
    wanted = torch.randint(leaves, (trees,), generator=generator)  # which leaf
    tree = torch.arange(trees)
    identity = torch.eye(leaves)
    x = torch.zeros(trees, 2 * leaves - 1, 2 * leaves + 1)
    x[:, 1 : leaves - 1, 2 * leaves] = 1
    x[:, 0, :leaves] = identity[keys[tree, wanted]]
    x[:, leaves - 1 :, : 2 * leaves] = torch.cat([identity[keys], identity[values]], dim=2)
    child = torch.arange(1, 2 * leaves - 1)
    edges = both_directions(torch.stack([child, (child - 1) // 2]))
    label = values[tree, wanted]
    tables = equal_graphs(x, edges[None], label.repeat_interleave(2 * leaves - 1))
    splits = FixedSplit(split_graphs(trees, generator, stride=2 * leaves - 1))
    return synthetic_dataset("tree-neighbors-match", tables, splits, leaves, options)
