"""Local numbers for the nodes of a sampled graph, in the order in which they are met."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rade.data.errors import DataError

IntArray = NDArray[np.int64]


class Numbering(Protocol):
    """Gives each distinct key the next free number; one batch lasts from ``start`` to ``finish``."""

    def start(self, keys: IntArray) -> None:
        """Number the seeds 0, 1, …"""

    def number(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of all keys, and the keys that were new, in the order of their numbers."""

    def finish(self) -> IntArray:
        """All keys in the order of their numbers; forget them."""


class TableNumbering:
    """A table with a place for every node of the graph: constant time per key, cleaned up in time of the batch."""

    def __init__(self, size: int) -> None:
        self.table: IntArray = np.full(size, -1)
        self.parts: list[IntArray] = []
        self.count = 0

    def start(self, keys: IntArray) -> None:
        for part in self.parts:  # left over if the last batch was interrupted
            self.table[part] = -1
        self.parts, self.count = [keys], len(keys)
        self.table[keys] = np.arange(len(keys))
        _require_distinct(np.array_equal(self.table[keys], np.arange(len(keys))))

    def number(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        candidates = keys[self.table[keys] < 0]
        # Each candidate writes its rank; the one whose rank survives stands for all equal ones. No sorting.
        ranks = np.arange(len(candidates))
        self.table[candidates] = ranks
        fresh = candidates[self.table[candidates] == ranks]
        self.table[fresh] = np.arange(self.count, self.count + len(fresh))
        self.count += len(fresh)
        self.parts.append(fresh)
        return self.table[keys], fresh

    def finish(self) -> IntArray:
        keys = np.concatenate(self.parts)
        self.table[keys] = -1
        self.parts = []
        return keys


class SortedNumbering:
    """Sorted keys: for key spaces too large for a table, such as (seed, node) pairs of disjoint batches."""

    def __init__(self) -> None:
        self.keys: IntArray = np.empty(0, dtype=np.int64)

    def start(self, keys: IntArray) -> None:
        _require_distinct(len(np.unique(keys)) == len(keys))
        self.keys = keys

    def number(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        known = len(self.keys)
        distinct, first, inverse = np.unique(np.concatenate([self.keys, keys]), return_index=True, return_inverse=True)
        order = np.argsort(first)  # distinct keys in the order of their first appearance; the known ones lead
        numbers = np.empty(len(distinct), dtype=np.int64)
        numbers[order] = np.arange(len(distinct))
        self.keys = distinct[order]
        return numbers[inverse[known:]], self.keys[known:]

    def finish(self) -> IntArray:
        return self.keys


def _require_distinct(distinct: bool) -> None:
    if not distinct:
        raise DataError("the seed nodes of a batch must be distinct; pass each node once in input_nodes")
