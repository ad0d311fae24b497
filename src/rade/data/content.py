"""What a data set must hold whatever its packing: a digest of labels, degrees and splits; known ones are packaged."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import torch

from rade.data.catalogue import Entry
from rade.data.errors import DataError
from rade.data.tables import Tables


def digest(tables: Tables) -> str:
    """Changes with any label, degree, size or split.

    One row per labelled item: a node is its number, degree and labels; a graph its numbers of nodes and edges and its
    labels, because public packings differ in the order of graphs. Rows are sorted, all of them and those of each part.
    """
    counts = tables.node_ptr.diff()
    per_graph = tables.y.size(0) == counts.numel()
    degree = torch.bincount(tables.edge_index[0], minlength=tables.y.size(0))
    owner = (counts, tables.edge_ptr.diff()) if per_graph else (torch.arange(tables.y.size(0)), degree)
    rows = torch.column_stack([*owner, tables.y.long()]).numpy()
    found = hashlib.sha256(repr([pointer[[0, -1]].tolist() for pointer in (tables.node_ptr, tables.edge_ptr)]).encode())
    for index in [np.arange(len(rows)), *(part.numpy() for parts in tables.splits for part in parts)]:
        chosen = rows[index]
        found.update(np.ascontiguousarray(chosen[np.lexsort(chosen.T)], dtype="<i8").tobytes())
    return found.hexdigest()


def is_known(entry: Entry, tables: Tables) -> bool:
    """Whether labels, degrees and splits are those of the data set."""
    try:
        return _known()[entry.name] == digest(tables)
    except IndexError:  # a split that names what is not there
        return False


def require_known(entry: Entry, tables: Tables) -> None:
    """Refuse a file whose content is not the data set's, though its bytes may not be known."""
    found = (len(tables.node_ptr) - 1, int(tables.node_ptr[-1]), tables.edge_index.size(1) // 2, tables.x.size(1))
    expected = (entry.graphs, entry.nodes, entry.edges, entry.features)
    way_out = "delete the file and import or download it again"
    if found != expected:
        raise DataError(
            f"{entry.title} should have (graphs, nodes, edges, features) = {expected}, its file has {found}; {way_out}"
        )
    if not is_known(entry, tables):
        raise DataError(f"{entry.title} has the right sizes but other labels, degrees or splits; {way_out}")


@cache
def _known() -> Mapping[str, str]:
    text = Path(__file__).with_name("contents.json").read_text(encoding="utf-8")
    known: Mapping[str, str] = json.loads(text)
    return known
