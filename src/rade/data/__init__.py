"""Data sets by name, offline mirrors, embedded synthetic tasks and mini-batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.data.catalogue import DataError, names, resolve
    from rade.data.dataset import Dataset, FixedSplit, GraphList, Provenance, RandomSplit, Split, StratifiedFolds
    from rade.data.files import data_root, import_mirror
    from rade.data.loading import load
    from rade.data.neighbor import NeighborLoader, mean_batch_nodes
    from rade.data.synthetic import Clouds, Words, csbm, far_pair, ring_transfer, tree_neighbors_match

# Loaded on first use: the table of data sets must not wait for PyTorch. No name here may equal a module of this
# package, or importing that module would hide it.
_HOMES = {
    "catalogue": ("DataError", "names", "resolve"),
    "dataset": ("Dataset", "FixedSplit", "GraphList", "Provenance", "RandomSplit", "Split", "StratifiedFolds"),
    "files": ("data_root", "import_mirror"),
    "loading": ("load",),
    "neighbor": ("NeighborLoader", "mean_batch_nodes"),
    "synthetic": ("Clouds", "Words", "csbm", "far_pair", "ring_transfer", "tree_neighbors_match"),
}
_HOME = {name: f"rade.data.{module}" for module, members in _HOMES.items() for name in members}

__all__ = [
    "Clouds", "DataError", "Dataset", "FixedSplit", "GraphList", "NeighborLoader", "Provenance",
    "RandomSplit", "Split", "StratifiedFolds", "Words", "csbm", "data_root", "far_pair", "import_mirror",
    "load", "mean_batch_nodes", "names", "resolve", "ring_transfer", "tree_neighbors_match",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rade.data' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
