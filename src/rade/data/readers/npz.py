"""Amazon and Coauthor graphs: sparse matrices in an npz file."""

import numpy as np
import scipy.sparse as sp
import torch

from rade.data.edges import clean_edges
from rade.data.features import choose_layout, row_normalised
from rade.data.files.manifest import required_files
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_arrays
from rade.data.tables import Tables, one_graph

PARTS = ("data", "indices", "indptr", "shape")


def read_npz(raw: RawFolder) -> Tables:
    """Words that occur, rows summing to 1, and the undirected graph; the split is drawn per run."""
    (file,) = required_files(raw.entry.name)
    keys = tuple(f"{matrix}_{part}" for matrix in ("adj", "attr") for part in PARTS)
    arrays = read_arrays(raw, file.path.removeprefix(f"{raw.entry.folder}/"), (*keys, "labels"))
    adjacency, words = (
        sp.csr_matrix(tuple(arrays[f"{matrix}_{part}"] for part in PARTS[:3]), tuple(arrays[f"{matrix}_shape"]))
        for matrix in ("adj", "attr")
    )
    words.data = (words.data > 0).astype(np.float32)  # as PyG reads these files: a word occurs or it does not
    pairs = adjacency.tocoo()
    edge_index = clean_edges(pairs.row.astype(np.int64), pairs.col.astype(np.int64), adjacency.shape[0])
    y = torch.from_numpy(arrays["labels"].astype(np.int64))
    return one_graph(choose_layout(row_normalised(words)), edge_index, y)
