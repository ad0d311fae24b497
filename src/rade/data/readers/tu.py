"""The TU graph sets: one-hot node labels, or one-hot degrees where there are none."""

import numpy as np
import torch
from torch import Tensor

from rade.data.edges import clean_edges, edge_slices, pointer
from rade.data.files.manifest import required_files
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_table
from rade.data.tables import Tables


def read_tu(raw: RawFolder) -> Tables:
    """Graphs in the order of the TU files; classes numbered in the order of their labels."""
    prefix = f"raw/{raw.entry.folder}_"
    graph = read_table(raw, f"{prefix}graph_indicator.txt", 1)[:, 0] - 1
    pairs = read_table(raw, f"{prefix}A.txt", 2) - 1
    labels = torch.from_numpy(read_table(raw, f"{prefix}graph_labels.txt", 1)[:, 0])
    node_ptr = pointer(torch.from_numpy(np.bincount(graph)))
    edges = clean_edges(pairs[:, 0], pairs[:, 1], len(graph))
    edge_index, edge_ptr = edge_slices(edges, node_ptr)
    label_path = f"{prefix}node_labels.txt"
    if f"{raw.entry.folder}/{label_path}" in {file.path for file in required_files(raw.entry.name)}:
        kinds = torch.from_numpy(read_table(raw, label_path, 1)[:, 0])
    else:
        kinds = torch.bincount(edges[0], minlength=len(graph))
    return Tables(one_hot(kinds), edge_index, torch.unique(labels, return_inverse=True)[1], node_ptr, edge_ptr)


def one_hot(values: Tensor) -> Tensor:
    """One column per *distinct* value, in increasing order: IMDB-B has 65 degrees, the largest of them 135."""
    distinct, position = torch.unique(values, return_inverse=True)
    return torch.eye(distinct.numel())[position]
