"""The in-neighbors of every node in one array, and draws from them without a Python loop over nodes."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rade.memory import Recall

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Neighborhoods:
    """The sources of all edges, grouped by target: those of node i are source[begin[i]:begin[i + 1]]."""

    begin: IntArray  # [n + 1]
    source: IntArray  # [E]
    position: IntArray  # [E], place of each edge in the edge_index it came from

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.begin) - 1

    @staticmethod
    def of(edge_index: Tensor, num_nodes: int) -> "Neighborhoods":
        """Group an edge_index [2, E] by target; done once per tensor, because every epoch may ask for it."""
        return _KNOWN.get((edge_index,), num_nodes, lambda: Neighborhoods._grouped(edge_index, num_nodes))

    @staticmethod
    def _grouped(edge_index: Tensor, num_nodes: int) -> "Neighborhoods":
        source, target = edge_index.cpu()
        order = torch.argsort(target, stable=True).numpy()
        begin = np.concatenate([[0], np.bincount(target.numpy(), minlength=num_nodes).cumsum()])
        return Neighborhoods(begin, source.numpy()[order], order)

    def draw(
        self, nodes: IntArray, fanout: int, replace: bool, generator: torch.Generator
    ) -> tuple[IntArray, IntArray]:
        """Up to ``fanout`` edges into each node (all for −1): their positions in ``source`` and how many per node."""
        begin = self.begin[nodes]
        degree = self.begin[nodes + 1] - begin
        if replace and fanout >= 0:
            counts = np.where(degree > 0, fanout, 0)
            uniform = torch.rand(int(counts.sum()), generator=generator, dtype=torch.float64).numpy()
            return np.repeat(begin, counts) + (uniform * np.repeat(degree, counts)).astype(np.int64), counts
        counts = degree if fanout < 0 else np.minimum(degree, fanout)
        first = counts.cumsum() - counts
        drawn = np.arange(counts.sum()) + np.repeat(begin - first, counts)
        large = np.flatnonzero(degree > counts)
        if large.size and fanout > 0:
            chosen = _subsets(degree[large], fanout, generator) + begin[large]  # [fanout, L]
            drawn[first[large] + np.arange(fanout)[:, None]] = chosen
        return drawn, counts


_KNOWN: Recall[Neighborhoods] = Recall()


def _subsets(size: IntArray, count: int, generator: torch.Generator) -> IntArray:
    """A uniform subset of {0, …, size − 1} per column: [count, len(size)].

    Floyd's algorithm on all columns at once: step j draws t from {0, …, u}, u = size − count + j, and takes u
    itself if t is taken already. Cost count² per column, whatever the degree.
    """
    uniform = torch.rand(count, len(size), generator=generator, dtype=torch.float64).numpy()
    chosen = np.empty((count, len(size)), dtype=np.int64)
    for j in range(count):
        last = size - count + j
        drawn = (uniform[j] * (last + 1)).astype(np.int64)
        taken = (chosen[:j] == drawn).any(axis=0)
        chosen[j] = np.where(taken, last, drawn)
    return chosen
