"""What worker processes need: loaders that can be sent to them, and a random stream for each of them."""

import pickle
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader


class SamplingLoader(NodeLoader):
    """PyG's loader; each pass over it draws anew, in forked, spawned and persistent workers alike."""

    def __iter__(self) -> Iterator[Data]:
        self.node_sampler.passes += 1
        batches: Iterator[Data] = super().__iter__()
        return batches

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker is sent: the data and the sampler as bytes, and the shared count of passes.

        PyTorch would send every tensor as a file descriptor, which fails where two tensors share memory or one is
        empty. The queues and generators of the loader stay where they are.
        """
        nothing: Any = range(1)
        machinery = vars(DataLoader(nothing))
        content = {name: value for name, value in vars(self).items() if name not in machinery}
        return {"content": pickle.dumps(content), "passes": self.node_sampler.passes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(pickle.loads(state["content"]))
        self.node_sampler.passes = state["passes"]


class WorkerGenerator:
    """A random stream of its own in every process: call it for the `torch.Generator` of the process it is called in.

    A generator that is made before workers are forked has the same state in all of them, so that they draw the same.

    >>> generator = WorkerGenerator(seed=3)
    >>> generator() is generator()
    True
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.owner: int | None = None  # the worker's seed: another one in each worker, and in each pass of new workers
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self) -> torch.Generator:
        """The generator of this process."""
        worker = get_worker_info()
        owner = None if worker is None else int(worker.seed)
        if owner != self.owner:
            mixed = hash((self.seed, owner)) % 2**63  # integers only: the same in every process
            self.owner, self.generator = owner, torch.Generator().manual_seed(mixed)
        return self.generator

    def __reduce__(self) -> tuple[type["WorkerGenerator"], tuple[int]]:
        return WorkerGenerator, (self.seed,)  # a generator cannot be pickled
