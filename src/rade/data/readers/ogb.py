"""OGB's csv layout, read directly: no question on stdin, no version check, no unsafe ``torch.load``."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rade.data.edges import clean_edges, edge_slices, pointer
from rade.data.errors import DataError
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_table
from rade.data.tables import Parts, Tables, one_graph


def read_ogb_nodes(raw: RawFolder) -> Tables:
    """ogbn-arxiv: raw features, citations in both directions, the split by year."""
    count = int(read_table(raw, "raw/num-node-list.csv.gz", 1)[0, 0])
    pairs = read_table(raw, "raw/edge.csv.gz", 2)
    _require_rows(raw, "raw/edge.csv.gz", pairs, int(read_table(raw, "raw/num-edge-list.csv.gz", 1)[0, 0]))
    x = read_table(raw, "raw/node-feat.csv.gz", raw.entry.features, np.float32)
    y = read_table(raw, "raw/node-label.csv.gz", 1)
    _require_rows(raw, "raw/node-feat.csv.gz", x, count)
    _require_rows(raw, "raw/node-label.csv.gz", y, count)
    edge_index = clean_edges(pairs[:, 0], pairs[:, 1], count)
    return one_graph(torch.from_numpy(x), edge_index, torch.from_numpy(y[:, 0]), _split(raw, "split/time/"))


def read_ogb_graphs(raw: RawFolder) -> Tables:
    """ogbg-molhiv: categorical atom features, bonds in both directions, the scaffold split."""
    nodes, bonds = (
        torch.from_numpy(read_table(raw, f"raw/num-{kind}-list.csv.gz", 1)[:, 0]) for kind in ("node", "edge")
    )
    node_ptr = pointer(nodes)
    pairs = read_table(raw, "raw/edge.csv.gz", 2)
    x = read_table(raw, "raw/node-feat.csv.gz", raw.entry.features)
    y = read_table(raw, "raw/graph-label.csv.gz", raw.entry.classes, np.float32)
    _require_rows(raw, "raw/edge.csv.gz", pairs, int(bonds.sum()))
    _require_rows(raw, "raw/node-feat.csv.gz", x, int(node_ptr[-1]))
    _require_rows(raw, "raw/graph-label.csv.gz", y, nodes.numel())
    edge_index, edge_ptr = union_edges(pairs, bonds, node_ptr)
    features, labels = torch.from_numpy(x).to(torch.uint8), torch.from_numpy(y)
    return Tables(features, edge_index, labels, node_ptr, edge_ptr, (_split(raw, "split/scaffold/"),))


def union_edges(pairs: NDArray[np.int64], counts: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Edges numbered per graph [M, 2], cleaned in one disjoint union and cut apart again."""
    shift = torch.repeat_interleave(node_ptr[:-1], counts).numpy()
    edge_index = clean_edges(pairs[:, 0] + shift, pairs[:, 1] + shift, int(node_ptr[-1]))
    edge_index, edge_ptr = edge_slices(edge_index, node_ptr)
    return edge_index.to(torch.int32), edge_ptr


def _split(raw: RawFolder, folder: str) -> Parts:
    train, val, test = (
        torch.from_numpy(read_table(raw, f"{folder}{part}.csv.gz", 1)[:, 0]) for part in ("train", "valid", "test")
    )
    return train, val, test


def _require_rows(raw: RawFolder, path: str, table: NDArray[np.generic], rows: int) -> None:
    if len(table) != rows:
        raise DataError(f"{raw.entry.folder}/{path} should have {rows} lines, got {len(table)}; fetch it again")
