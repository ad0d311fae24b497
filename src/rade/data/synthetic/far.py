"""Far pair: a graph-level label that depends on two far-apart nodes together."""

import torch

from rade.data.dataset import Dataset
from rade.data.errors import DataError
from rade.data.splits import FixedSplit
from rade.data.synthetic.common import synthetic_dataset
from rade.data.synthetic.copies import both_directions, equal_graphs, split_graphs


def far_pair(graphs: int = 2000, length: int = 10, pendants: int = 5, classes: int = 2, seed: int = 0) -> Dataset:
    """Paths with coloured ends and pendant nodes in between; the label is (left colour + right colour) mod classes.

    Either colour alone says nothing about the label. Until messages from both ends meet at some node, which takes
    at least (length − 1)/2 layers, pooling with a linear head adds a function of one colour to a function
    of the other, and the best such sum in cross-entropy is a constant.
    Features: a column per colour (the ends only) and one for all other nodes.
    """
    options = dict(locals())
    if length < 3 or pendants < 0 or classes < 2 or graphs < 5:
        raise DataError(
            f"far_pair needs length ≥ 3, pendants ≥ 0, classes ≥ 2, graphs ≥ 5, "
            f"got {length}, {pendants}, {classes}, {graphs}"
        )
    generator = torch.Generator().manual_seed(seed)
    colours = torch.randint(classes, (graphs, 2), generator=generator)
    x = torch.zeros(graphs, length + pendants, classes + 1)
    x[:, :, classes] = 1
    x[:, [0, length - 1]] = torch.eye(classes + 1)[colours]
    path = torch.stack([torch.arange(length - 1), torch.arange(1, length)]).expand(graphs, -1, -1)
    anchors = torch.randint(1, length - 1, (graphs, pendants), generator=generator)
    hanging = torch.arange(length, length + pendants).expand(graphs, -1)
    edges = both_directions(torch.cat([path, torch.stack([anchors, hanging], dim=1)], dim=2))
    tables = equal_graphs(x, edges, colours.sum(dim=1) % classes)
    return synthetic_dataset("far-pair", tables, FixedSplit(split_graphs(graphs, generator)), classes, options)
