"""Graphs that an attack has changed, with the clean graph's features and labels and the attack's own split."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from rade.data.catalogue import resolve
from rade.data.edges import clean_edges
from rade.data.features import choose_layout
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_adjacency, read_arrays, read_lists
from rade.data.readers.planetoid import read_planetoid
from rade.data.tables import Tables, one_graph

PARTS = ("data", "indices", "indptr", "shape")


def read_perturbed(raw: RawFolder) -> Tables:
    """The perturbed graph, or the clean one at strength 0.

    Nettack changes the graph around some test nodes only; its file names them, and they alone are the test part.
    """
    roles = raw.entry.roles
    clean = read_planetoid(replace(raw, entry=resolve(raw.entry.base))) if raw.entry.base else _component(raw)
    edge_index = read_adjacency(raw, roles["graph"]) if "graph" in roles else clean.edge_index
    nodes = read_lists(raw, roles["split"])
    test = nodes.get("attacked_test_nodes", nodes["idx_test"])
    return one_graph(clean.x, edge_index, clean.y, (nodes["idx_train"], nodes["idx_val"], test))


def _component(raw: RawFolder) -> Tables:
    """The largest component of a clean graph, in the order of its nodes: the numbering of the attacks' files."""
    path, featureless = raw.entry.roles["clean"], raw.entry.features == raw.entry.nodes
    matrices = ("adj",) if featureless else ("adj", "attr")
    arrays = read_arrays(raw, path, (*(f"{matrix}_{part}" for matrix in matrices for part in PARTS), "labels"))
    adjacency, *attributes = (
        sp.csr_matrix(tuple(arrays[f"{matrix}_{part}"] for part in PARTS[:3]), tuple(arrays[f"{matrix}_shape"]))
        for matrix in matrices
    )
    owner = connected_components(adjacency, directed=False)[1]
    kept = np.flatnonzero(owner == np.bincount(owner).argmax())
    pairs = adjacency[kept][:, kept].tocoo()
    edge_index = clean_edges(pairs.row.astype(np.int64), pairs.col.astype(np.int64), len(kept))
    # A graph without features has the identity in their place: each node is its own word.
    x = attributes[0][kept] if attributes else sp.identity(len(kept), format="csr")
    return one_graph(choose_layout(x), edge_index, torch.from_numpy(arrays["labels"][kept].astype(np.int64)))
