"""peptides-func from the compact npz: no RDKit, no large tensor files."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from rade.data.edges import pointer
from rade.data.files.raw import RawFolder
from rade.data.readers.common import read_arrays
from rade.data.readers.ogb import union_edges
from rade.data.tables import Tables

KEYS = ("x", "edge", "num_nodes", "num_edges", "y", "train", "val", "test")


def read_peptides(raw: RawFolder) -> Tables:
    """Categorical atom features, bonds in both directions, ten labels per graph, the official split."""
    arrays = read_arrays(raw, "source/peptides_func_graphs.npz", KEYS)
    integers = {key: torch.from_numpy(arrays[key].astype(np.int64)) for key in KEYS[2:]}
    node_ptr = pointer(integers["num_nodes"])
    edge_index, edge_ptr = union_edges(arrays["edge"].astype(np.int64), integers["num_edges"], node_ptr)
    split = (integers["train"], integers["val"], integers["test"])
    return Tables(torch.from_numpy(arrays["x"]), edge_index, integers["y"].float(), node_ptr, edge_ptr, (split,))


def repack(files: Mapping[str, Path], out: IO[bytes]) -> None:
    """Turn LRGB's three tensor files (lists of x, edge_attr, edge_index, y) into the compact npz of the reader."""
    graphs: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    parts: dict[str, Any] = {}
    for name, path in files.items():
        part = name.removesuffix(".pt")
        loaded = torch.load(path, weights_only=True)
        parts[part] = np.arange(len(graphs), len(graphs) + len(loaded))
        graphs += loaded
    edges = [edge_index[:, edge_index[0] < edge_index[1]] for _, _, edge_index, _ in graphs]
    np.savez_compressed(
        out,
        x=torch.cat([x for x, _, _, _ in graphs]).to(torch.uint8).numpy(),
        edge=torch.cat(edges, dim=1).t().to(torch.int32).numpy(),
        num_nodes=np.array([x.size(0) for x, _, _, _ in graphs]),
        num_edges=np.array([edge.size(1) for edge in edges]),
        y=torch.cat([y.view(1, -1) for _, _, _, y in graphs]).to(torch.uint8).numpy(),
        **parts,
    )
