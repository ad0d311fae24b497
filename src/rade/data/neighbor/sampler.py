"""A neighbor sampler in NumPy and SciPy under PyG's own interface: no compiled extras."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from rade.data.errors import DataError
from rade.data.neighbor.neighborhoods import Neighborhoods
from rade.data.neighbor.numbering import Numbering, SortedNumbering, TableNumbering

IntArray = NDArray[np.int64]


class VectorisedNeighborSampler(BaseSampler):
    """Per hop, up to ``fanouts[hop]`` in-neighbors of every node met in the hop before; −1 takes all of them.

    A batch is a function of (seed, pass, its seed nodes): worker processes do not change it. ``bidirectional``
    adds the reverse of every sampled edge; ``disjoint`` keeps the neighborhoods of different seeds apart.
    """

    def __init__(
        self,
        neighborhoods: Neighborhoods,
        fanouts: list[int],
        replace: bool = False,
        disjoint: bool = False,
        bidirectional: bool = True,
        seed: int = 0,
    ) -> None:
        if not fanouts or any(fanout < -1 for fanout in fanouts):
            raise DataError(f"fan-outs must be one number per hop, −1 for all neighbors, got {list(fanouts)}")
        self.neighborhoods, self.fanouts, self.seed = neighborhoods, list(fanouts), seed
        self.replace, self.disjoint, self.bidirectional = replace, disjoint, bidirectional
        # Shared with worker processes that live on, so that each pass draws anew.
        self.passes: Tensor = torch.zeros((), dtype=torch.long)
        self.passes.share_memory_()  # type: ignore[no-untyped-call]
        self.numbering: Numbering = SortedNumbering() if disjoint else TableNumbering(neighborhoods.num_nodes)

    @property
    def edge_permutation(self) -> Tensor:
        """From our grouping of the edges to the caller's order."""
        return torch.from_numpy(self.neighborhoods.position)

    def sample_from_nodes(self, inputs: NodeSamplerInput) -> SamplerOutput:
        """The sampled graph around some seed nodes, which come first."""
        seeds: IntArray = inputs.node.numpy()
        total = self.neighborhoods.num_nodes
        generator = self._generator(seeds)
        # A key is the node itself, or (seed number, node) where neighborhoods are kept apart.
        frontier = seeds + np.arange(len(seeds)) * total if self.disjoint else seeds
        self.numbering.start(frontier)
        sources, counts, edges, sizes = [], [], [], [len(seeds)]
        for fanout in self.fanouts:
            drawn, per_node = self.neighborhoods.draw(frontier % total, fanout, self.replace, generator)
            tree = np.repeat(frontier // total, per_node)
            numbers, frontier = self.numbering.number(self.neighborhoods.source[drawn] + tree * total)
            sources.append(numbers)
            counts.append(per_node)
            edges.append(drawn)
            sizes.append(len(frontier))
        keys = self.numbering.finish()
        # Nodes are expanded in the order of their numbers, so the edges are grouped by target already.
        per_target = np.concatenate([*counts, np.zeros(sizes[-1], dtype=np.int64)])
        row, col = _grouped(np.concatenate(sources), per_target, self.bidirectional)
        return SamplerOutput(
            node=torch.from_numpy(keys % total),
            row=row,
            col=col,
            edge=None if self.bidirectional else torch.from_numpy(np.concatenate(edges)),
            batch=torch.from_numpy(keys // total) if self.disjoint else None,
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


def _grouped(source: IntArray, per_target: IntArray, bidirectional: bool) -> tuple[Tensor, Tensor]:
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
