"""A neighbor sampler in NumPy and SciPy under PyG's own interface: no compiled extras, no loop over nodes."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from rade.data.catalogue import DataError
from rade.data.tensors import IntArray
from rade.runtime import Recall


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


class VectorisedNeighborSampler(BaseSampler):
    """Per hop, up to ``fanouts[hop]`` in-neighbors of every node met in the hop before; −1 takes all of them.

    A batch is a function of (seed, pass, its seed nodes): worker processes do not change it. ``bidirectional``
    adds the reverse of every sampled edge.
    """

    def __init__(
        self,
        neighborhoods: Neighborhoods,
        fanouts: list[int],
        replace: bool = False,
        bidirectional: bool = True,
        seed: int = 0,
    ) -> None:
        if not fanouts or any(fanout < -1 for fanout in fanouts):
            raise DataError(f"fan-outs must be one number per hop, −1 for all neighbors, got {list(fanouts)}")
        self.neighborhoods, self.fanouts, self.seed = neighborhoods, list(fanouts), seed
        self.replace, self.bidirectional = replace, bidirectional
        # Shared with worker processes that live on, so that each pass draws anew.
        self.passes: Tensor = torch.zeros((), dtype=torch.long)
        self.passes.share_memory_()  # type: ignore[no-untyped-call]
        self.numbering = _Numbering(neighborhoods.num_nodes)

    @property
    def edge_permutation(self) -> Tensor:
        """From our grouping of the edges to the caller's order."""
        return torch.from_numpy(self.neighborhoods.position)

    def sample_from_nodes(self, inputs: NodeSamplerInput) -> SamplerOutput:
        """The sampled graph around some seed nodes, which come first."""
        seeds: IntArray = inputs.node.numpy()
        generator, frontier = self._generator(seeds), seeds
        self.numbering.start(frontier)
        sources, counts, edges, sizes = [], [], [], [len(seeds)]
        for fanout in self.fanouts:
            drawn, per_node = self.neighborhoods.draw(frontier, fanout, self.replace, generator)
            numbers, frontier = self.numbering.number(self.neighborhoods.source[drawn])
            sources.append(numbers)
            counts.append(per_node)
            edges.append(drawn)
            sizes.append(len(frontier))
        # Nodes are expanded in the order of their numbers, so the edges are grouped by target already.
        per_target = np.concatenate([*counts, np.zeros(sizes[-1], dtype=np.int64)])
        row, col = _edges(np.concatenate(sources), per_target, self.bidirectional)
        return SamplerOutput(
            node=torch.from_numpy(self.numbering.finish()),
            row=row,
            col=col,
            edge=None if self.bidirectional else torch.from_numpy(np.concatenate(edges)),
            batch=None,
            num_sampled_nodes=sizes,
            num_sampled_edges=None if self.bidirectional else [len(part) for part in edges],
            metadata=(inputs.input_id, inputs.time),
        )

    def sample_from_edges(self, inputs: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Refused: link prediction is not a task of this package."""
        raise DataError("this sampler starts from nodes; for link prediction use PyG's LinkNeighborLoader with pyg-lib")

    def _generator(self, seeds: IntArray) -> torch.Generator:
        digest = hashlib.blake2b(np.array([self.seed, int(self.passes)]).tobytes() + seeds.tobytes(), digest_size=8)
        return torch.Generator().manual_seed(int.from_bytes(digest.digest(), "little"))


def _edges(source: IntArray, per_target: IntArray, bidirectional: bool) -> tuple[Tensor, Tensor]:
    """Source and target of all edges; with ``bidirectional`` also the reverse edges, sorted, without duplicates."""
    nodes = len(per_target)
    if not bidirectional:
        return torch.from_numpy(source), torch.from_numpy(np.repeat(np.arange(nodes), per_target))
    begin = np.concatenate([[0], per_target.cumsum()])
    matrix = sp.csr_matrix((np.ones(len(source), dtype=np.int8), source, begin), shape=(nodes, nodes))
    # Transposing is a counting sort: two of them sort the entries in linear time, and the sum merges sorted rows.
    backward = matrix.T.tocsr()
    forward = backward.T.tocsr()
    for part in (forward, backward):
        part.sum_duplicates()  # there are some after draws with replacement, or in a multigraph
    union = (forward + backward).tocsr()
    row = np.repeat(np.arange(nodes), np.diff(union.indptr))
    return torch.from_numpy(row), torch.from_numpy(union.indices.astype(np.int64))


class _Numbering:
    """Each distinct node gets the next free number, from ``start`` to ``finish`` of a batch.

    A table with a place for every node of the graph: constant time per node, cleaned up in time of the batch.
    """

    def __init__(self, size: int) -> None:
        self.table: IntArray = np.full(size, -1)
        self.parts: list[IntArray] = []
        self.count = 0

    def start(self, nodes: IntArray) -> None:
        """Number the seeds 0, 1, …"""
        for part in self.parts:  # left over if the last batch was interrupted
            self.table[part] = -1
        self.parts, self.count = [nodes], len(nodes)
        self.table[nodes] = np.arange(len(nodes))
        if not np.array_equal(self.table[nodes], np.arange(len(nodes))):
            raise DataError("the seed nodes of a batch must be distinct; pass each node once in input_nodes")

    def number(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of all nodes, and the nodes that were new, in the order of their numbers."""
        candidates = nodes[self.table[nodes] < 0]
        # Each candidate writes its rank; the one whose rank survives stands for all equal ones. No sorting.
        ranks = np.arange(len(candidates))
        self.table[candidates] = ranks
        fresh = candidates[self.table[candidates] == ranks]
        self.table[fresh] = np.arange(self.count, self.count + len(fresh))
        self.count += len(fresh)
        self.parts.append(fresh)
        return self.table[nodes], fresh

    def finish(self) -> IntArray:
        """All nodes in the order of their numbers; forget them."""
        nodes = np.concatenate(self.parts)
        self.table[nodes] = -1
        self.parts = []
        return nodes
