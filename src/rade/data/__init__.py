"""Data sets by name, offline mirrors, embedded synthetic tasks and mini-batches."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rade.data.catalogue import DataError, names, resolve

if TYPE_CHECKING:
    from rade.data.dataset import Dataset, FixedSplit, GraphList, Provenance, RandomSplit, StratifiedFolds
    from rade.data.files import data_root, import_mirror
    from rade.data.neighbor import NeighborLoader, mean_batch_nodes
    from rade.data.synthetic import Words, csbm, far_pair, ring_transfer, tree_neighbors_match
    from rade.data.tensors import Split

# Loaded on first use: the table of data sets must not wait for PyTorch. No name here may equal a module of this
# package, or importing that module would hide it.
_HOMES = {
    "dataset": ("Dataset", "FixedSplit", "GraphList", "Provenance", "RandomSplit", "StratifiedFolds"),
    "files": ("data_root", "import_mirror"),
    "neighbor": ("NeighborLoader", "mean_batch_nodes"),
    "synthetic": ("Words", "csbm", "far_pair", "ring_transfer", "tree_neighbors_match"),
    "tensors": ("Split",),
}
_HOME = {name: f"rade.data.{module}" for module, members in _HOMES.items() for name in members}

__all__ = [
    "DataError", "Dataset", "FixedSplit", "GraphList", "NeighborLoader", "Provenance",
    "RandomSplit", "Split", "StratifiedFolds", "Words", "csbm", "data_root", "far_pair", "import_mirror",
    "load", "mean_batch_nodes", "names", "resolve", "ring_transfer", "tree_neighbors_match",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rade.data' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)


def load(name: str, root: str | os.PathLike[str] | None = None, *, download: bool = True, **options: Any) -> "Dataset":
    """The data set of a name, from the data folder, from the network, or generated.

    ``options`` are the arguments of a synthetic generator.

    >>> load("csbm", nodes=300).graphs[0].num_nodes
    300
    """
    from rade.data.files import RawFolder, data_root, fetch, missing_files, missing_sentence
    from rade.data.readers import read
    from rade.data.synthetic import GENERATORS

    entry = resolve(name)
    if entry.embedded:
        return GENERATORS[entry.name](**options)
    if options:
        raise DataError(f"{entry.title} has a fixed content; the options {sorted(options)} are for synthetic data sets")
    raw = RawFolder(data_root(root), entry)
    if missing_files(entry.name, raw.root):
        if not download:
            raise DataError(missing_sentence(entry, raw.root))
        fetch(entry, raw.root)
    return read(raw)
