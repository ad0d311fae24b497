"""Ring transfer: a class must travel half-way round a ring."""

import torch

from rade.data.dataset import Dataset
from rade.data.errors import DataError
from rade.data.splits import FixedSplit
from rade.data.synthetic.common import synthetic_dataset
from rade.data.synthetic.copies import both_directions, equal_graphs, split_graphs


def ring_transfer(rings: int = 1000, size: int = 10, classes: int = 5, seed: int = 0) -> Dataset:
    """Many rings in one graph; the first node of each must name the class that the opposite node carries.

    Radius ⌊size/2⌋: with fewer layers than that no information arrives and any model is at chance.
    Features: one column per class (the source only), one for the target, one for all the others. The splits hold
    target nodes; ``batch`` tells the rings apart. (Di Giovanni et al. 2023, "On over-squashing in message passing".)
    """
    options = dict(locals())
    if size < 3 or rings < 5 or classes < 2:
        raise DataError(f"ring_transfer needs size ≥ 3, rings ≥ 5, classes ≥ 2, got {size}, {rings}, {classes}")
    generator = torch.Generator().manual_seed(seed)
    label = torch.randperm(rings, generator=generator) % classes  # balanced
    x = torch.zeros(rings, size, classes + 2)
    x[:, :, classes + 1] = 1
    x[:, 0, classes + 1], x[:, 0, classes] = 0, 1
    x[:, size // 2] = torch.eye(classes + 2)[label]
    node = torch.arange(size)
    edges = both_directions(torch.stack([node, (node + 1) % size]))
    tables = equal_graphs(x, edges[None], label.repeat_interleave(size))
    splits = FixedSplit(split_graphs(rings, generator, stride=size))
    return synthetic_dataset("ring-transfer", tables, splits, classes, options)
