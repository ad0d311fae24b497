"""Mini-batches of sampled neighborhoods, in NumPy and SciPy: no compiled extras, no loop over nodes."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from rade.data.catalogue import DataError
from rade.data.tensors import IntArray, both_directions
from rade.graph.sparse import rows_of
from rade.runtime import Recall


class NeighborLoader:
    """Batches around ``batch_size`` seed nodes: PyG data with x, y, edge_index, n_id and batch_size, seeds first.

    Per hop, up to ``fanouts[hop]`` in-neighbors of every node met in the hop before are drawn, −1 takes all of them;
    edges get both directions. A batch is a function of (seed, pass, its seed nodes). Sparse CSR features stay CSR.
    """

    def __init__(
        self,
        data: Data,
        fanouts: Sequence[int],
        batch_size: int,
        input_nodes: Tensor | None = None,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        attributes = [key for key in data.edge_attrs() if key != "edge_index"]
        if attributes:
            raise DataError(
                f"the edge attributes {attributes} have no value on the reverse edges that batches add; "
                f"delete them from the data, or use PyG's NeighborLoader"
            )
        if not fanouts or any(fanout < -1 for fanout in fanouts):
            raise DataError(f"fan-outs must be one number per hop, −1 for all neighbors, got {list(fanouts)}")
        nodes = torch.arange(data.num_nodes) if input_nodes is None else input_nodes
        self.nodes = nodes.nonzero().squeeze(1) if nodes.dtype is torch.bool else nodes
        self.data, self.fanouts, self.batch_size, self.seed = data, list(fanouts), batch_size, seed
        self.order = torch.Generator().manual_seed(seed) if shuffle else None
        self.passes = 0

    def __len__(self) -> int:
        return -(-self.nodes.numel() // self.batch_size)

    def __iter__(self) -> Iterator[Data]:
        self.passes += 1
        nodes, this_pass = self.nodes, self.passes
        if self.order is not None:
            nodes = nodes[torch.randperm(nodes.numel(), generator=self.order)]
        return (self._batch(seeds, this_pass) for seeds in torch.split(nodes, self.batch_size))

    def _batch(self, seeds: Tensor, this_pass: int) -> Data:
        named = np.array([self.seed, this_pass]).tobytes() + seeds.numpy().tobytes()
        digest = hashlib.blake2b(named, digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
        known = Neighborhoods.of(self.data.edge_index, self.data.num_nodes)
        n_id, edge_index = known.sample(seeds.numpy(), self.fanouts, generator)
        batch = Data(edge_index=edge_index, n_id=n_id, num_nodes=n_id.numel(), batch_size=seeds.numel())
        for key, value in self.data.to_dict().items():
            if key not in ("edge_index", "num_nodes"):
                batch[key] = rows_of(value, n_id) if self.data.is_node_attr(key) else value
        return batch


def mean_batch_nodes(batches: Iterable[Data], limit: int = 20) -> float:
    """The mean number n_b of nodes of the first ``limit`` batches: `Rates.scaled(n_b / n)` suits a graph of n nodes."""
    sizes = [float(batch.num_nodes) for _, batch in zip(range(limit), batches)]
    return sum(sizes) / len(sizes)


@dataclass(frozen=True)
class Neighborhoods:
    """The sources of all edges, grouped by target: those of node i are source[begin[i]:begin[i + 1]]."""

    begin: IntArray  # [n + 1]
    source: IntArray  # [E]

    @staticmethod
    def of(edge_index: Tensor, num_nodes: int) -> "Neighborhoods":
        """Group an edge_index [2, E] by target; done once per tensor, because every epoch may ask for it."""

        def grouped() -> Neighborhoods:
            source, target = edge_index.cpu()
            begin = np.concatenate([[0], np.bincount(target.numpy(), minlength=num_nodes).cumsum()])
            return Neighborhoods(begin, source[torch.argsort(target, stable=True)].numpy())

        return _KNOWN.get((edge_index,), num_nodes, grouped)

    def sample(self, seeds: IntArray, fanouts: Sequence[int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The nodes of the sampled graph around some seeds, which come first, and its edge_index."""
        number = np.full(len(self.begin) - 1, -1)  # of each node in the sampled graph
        number[seeds] = np.arange(len(seeds))
        if not np.array_equal(number[seeds], np.arange(len(seeds))):
            raise DataError("the seed nodes of a batch must be distinct; pass each node once in input_nodes")
        frontier, count = seeds, len(seeds)
        nodes, sources, degrees = [seeds], [], []
        for fanout in fanouts:
            drawn, degree = self.draw(frontier, fanout, generator)
            ends = self.source[drawn]
            frontier = _unnumbered(ends, number)
            number[frontier] = np.arange(count, count + len(frontier))
            count += len(frontier)
            nodes.append(frontier)
            sources.append(number[ends])
            degrees.append(degree)
        # Nodes are expanded in the order of their numbers.
        per_target = np.concatenate([*degrees, np.zeros(len(frontier), dtype=np.int64)])
        targets = np.repeat(np.arange(count), per_target)
        return torch.from_numpy(np.concatenate(nodes)), both_directions(np.concatenate(sources), targets, count)

    def draw(self, nodes: IntArray, fanout: int, generator: torch.Generator) -> tuple[IntArray, IntArray]:
        """Up to ``fanout`` edges into each node (all for −1): their positions in ``source`` and how many per node."""
        begin = self.begin[nodes]
        degree = self.begin[nodes + 1] - begin
        counts = degree if fanout < 0 else np.minimum(degree, fanout)
        first = counts.cumsum() - counts
        drawn = np.arange(counts.sum()) + np.repeat(begin - first, counts)
        large = np.flatnonzero(degree > counts)
        if large.size and fanout > 0:
            chosen = _subsets(degree[large], fanout, generator) + begin[large]  # [fanout, L]
            drawn[first[large] + np.arange(fanout)[:, None]] = chosen
        return drawn, counts


_KNOWN: Recall[Neighborhoods] = Recall()


def _unnumbered(nodes: IntArray, number: IntArray) -> IntArray:
    """The nodes without a number, each once, without sorting: all write their rank, one of equal ones survives."""
    candidates = nodes[number[nodes] < 0]
    ranks = np.arange(len(candidates))
    number[candidates] = ranks
    survivors: IntArray = candidates[number[candidates] == ranks]
    return survivors


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
