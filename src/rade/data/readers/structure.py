"""A real graph without its features and labels: for measuring speed and memory, not accuracy."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp
import torch

from rade.data.files.raw import RawFolder
from rade.data.readers.common import parse_table, read_adjacency
from rade.data.tables import Tables, one_graph

SEED = 0


def read_structure(raw: RawFolder) -> Tables:
    """The graph; features are standard normal and labels uniform, from a fixed seed."""
    edge_index = read_adjacency(raw, "structure/citations.npz")
    generator = torch.Generator().manual_seed(SEED)
    y = torch.randint(raw.entry.classes, (raw.entry.nodes,), generator=generator)
    x = torch.randn(raw.entry.nodes, raw.entry.features, generator=generator)
    return one_graph(x, edge_index, y)


def repack(files: Mapping[str, Path], out: IO[bytes]) -> None:
    """Turn OGB's number of nodes and list of citations into the sparse matrix of the reader."""
    sizes, pairs = (parse_table(path.read_bytes(), name, k) for (name, path), k in zip(files.items(), (1, 2)))
    count = int(sizes[0, 0])
    matrix = sp.csr_matrix((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    matrix.sort_indices()
    np.savez_compressed(out, indptr=matrix.indptr, indices=matrix.indices, shape=np.array(matrix.shape))
