"""Flickr in GraphSAINT's layout."""

import json

import numpy as np
import scipy.sparse as sp
import torch

from rade.data.errors import DataError
from rade.data.features import choose_layout, row_normalised
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_adjacency, read_lists
from rade.data.tables import Tables, one_graph


def read_flickr(raw: RawFolder) -> Tables:
    """Features with rows summing to 1, the graph, and the public split."""
    edge_index = read_adjacency(raw, "raw/adj_full.npz")
    roles = read_lists(raw, "raw/role.json")
    classes = json.loads(raw.read("raw/class_map.json"))
    count = len(classes)
    y = torch.empty(count, dtype=torch.long)
    y[torch.tensor([int(node) for node in classes])] = torch.tensor(list(classes.values()))
    x = choose_layout(row_normalised(_features(raw, count)))
    return one_graph(x, edge_index, y, (roles["tr"], roles["va"], roles["te"]))


def _features(raw: RawFolder, count: int) -> sp.csr_matrix:
    path = raw.checked("raw/feats.npy")
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as reason:
        raise DataError(f"Flickr/raw/feats.npy is not a plain array ({reason}); fetch it again") from None
    expected = (count, raw.entry.features)
    if values.shape != expected:
        raise DataError(f"Flickr/raw/feats.npy should have shape {expected}, got {values.shape}; fetch it again")
    # In slices: the file is float64, and two dense copies of it would take a gigabyte.
    return sp.vstack([sp.csr_matrix(values[i : i + 8192], dtype=np.float32) for i in range(0, count, 8192)])
