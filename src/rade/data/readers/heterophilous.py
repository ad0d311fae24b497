"""The heterophilous graphs of Platonov et al. 2023: dense arrays and ten splits in one npz file."""

import numpy as np
import scipy.sparse as sp
import torch

from rade.data.edges import clean_edges
from rade.data.features import choose_layout
from rade.data.files.manifest import required_files
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_arrays
from rade.data.tables import Tables, one_graph

PARTS = ("train_masks", "val_masks", "test_masks")


def read_heterophilous(raw: RawFolder) -> Tables:
    """Raw features, edges in both directions, ten splits; labels of a binary task are 0/1 targets [n, 1]."""
    (file,) = required_files(raw.entry.name)
    path = file.path.removeprefix(f"{raw.entry.folder}/")
    arrays = read_arrays(raw, path, ("node_features", "node_labels", "edges", *PARTS))
    source, target = arrays["edges"].astype(np.int64).T
    labels = torch.from_numpy(arrays["node_labels"].astype(np.int64))
    y = labels[:, None].float() if raw.entry.loss == "binary" else labels
    splits = []
    for masks in zip(*(arrays[part] for part in PARTS)):
        train, val, test = (torch.from_numpy(np.flatnonzero(mask)) for mask in masks)
        splits.append((train, val, test))
    x = choose_layout(sp.csr_matrix(arrays["node_features"]))
    return one_graph(x, clean_edges(source, target, len(labels)), y, *splits)
