"""Data sets by name, offline mirrors, embedded synthetic tasks and mini-batches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rade.data.catalogue import Entry, names, resolve
    from rade.data.dataset import Dataset, Provenance
    from rade.data.errors import DataError
    from rade.data.files.mirror import import_mirror
    from rade.data.files.root import data_root
    from rade.data.graphs import GraphBatches, GraphList
    from rade.data.loading import load
    from rade.data.neighbor.loader import Sampling, mean_batch_nodes, neighbor_loader
    from rade.data.neighbor.sampler import VectorisedNeighborSampler
    from rade.data.neighbor.workers import WorkerGenerator
    from rade.data.splits import Split
    from rade.data.synthetic import Clouds, Words, csbm, far_pair, ring_transfer, tree_neighbors_match

# Loaded on first use: the table of data sets must not wait for PyTorch. No name here may equal a module of this
# package, or importing that module would hide it.
_HOMES = {
    "rade.data.catalogue": ("Entry", "names", "resolve"),
    "rade.data.dataset": ("Dataset", "Provenance"),
    "rade.data.errors": ("DataError",),
    "rade.data.graphs": ("GraphBatches", "GraphList"),
    "rade.data.loading": ("load",),
    "rade.data.files.mirror": ("import_mirror",),
    "rade.data.neighbor.loader": ("Sampling", "mean_batch_nodes", "neighbor_loader"),
    "rade.data.neighbor.sampler": ("VectorisedNeighborSampler",),
    "rade.data.neighbor.workers": ("WorkerGenerator",),
    "rade.data.files.root": ("data_root",),
    "rade.data.splits": ("Split",),
    "rade.data.synthetic": ("Clouds", "Words", "csbm", "far_pair", "ring_transfer", "tree_neighbors_match"),
}
_HOME = {name: home for home, members in _HOMES.items() for name in members}

__all__ = [
    "Clouds",
    "DataError",
    "Dataset",
    "Entry",
    "GraphBatches",
    "GraphList",
    "Provenance",
    "Sampling",
    "Split",
    "VectorisedNeighborSampler",
    "Words",
    "WorkerGenerator",
    "csbm",
    "data_root",
    "far_pair",
    "import_mirror",
    "load",
    "mean_batch_nodes",
    "names",
    "neighbor_loader",
    "resolve",
    "ring_transfer",
    "tree_neighbors_match",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rade.data' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
