"""The data sets of `rade.data` as a user would bring them: one graph with masks, or a list of graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from rade.data.dataset import Dataset
from rade.data.splits import Split

COLUMNS = 10  # splits that are taken from a data set which has others for every run


def as_brought(data: Any) -> Any:
    """PyG data in the place of a `rade.data.Dataset`; anything else as it is."""
    if not isinstance(data, Dataset):
        return data
    return _with_masks(data) if data.level == "node" else [data.graphs[index] for index in range(len(data.graphs))]


def _with_masks(data: Dataset) -> Data:
    graph = data.graphs[0].clone()
    graph.x = graph.x.to_dense()  # any layer takes it
    splits = [data.split(run) for run in range(COLUMNS)]
    different = splits if not torch.equal(splits[0].train, splits[1].train) else splits[:1]
    for part in ("train", "val", "test"):
        graph[f"{part}_mask"] = torch.stack([_mask(graph.num_nodes, split, part) for split in different], 1)
    return graph


def _mask(nodes: int | None, split: Split, part: str) -> Tensor:
    assert nodes is not None
    return torch.zeros(nodes, dtype=torch.bool).index_fill(0, vars(split)[part], True)
