"""The clean graph, or batch of graphs: one sorted structure and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from rade.graph.adjacency import Adjacency
from rade.graph.directions import DIRECTED, UNDIRECTED, Directions
from rade.graph.nodes import Nodes
from rade.graph.sparse import Pattern, entries_of_rows, row_pointer
from rade.memory import Memo, remembered

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Graph(Adjacency):
    """A simple graph, or a batch of them, ready for aggregation, sampling and moments. Immutable.

    Build it with `Graph.from_edge_index`. ``pattern`` holds every edge, or both directions of it in an undirected
    graph, sorted by target and source; ``order`` gives the caller's position of each of its entries, so that edge
    weights can follow. Degrees, neighbors and non-neighbors of a node are those that it hears.
    """

    pattern: Pattern
    order: Tensor  # [E] position in the caller's edge_index
    batch: Tensor  # [n] graph of each node, ascending
    ptr: Tensor  # [B + 1] first node of each graph
    self_loops: int  # how many were removed
    directions: Directions = UNDIRECTED  # whether a pair's directions are drawn together
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @staticmethod
    def from_edge_index(
        edge_index: Tensor,
        num_nodes: int | None = None,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        directed: bool = False,
    ) -> Graph:
        """Validate and sort a PyG ``edge_index`` [2, E]: with both directions of every edge, unless ``directed``.

        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> graph.num_nodes, graph.num_edges, graph.degree.tolist()
        (3, 2, [1, 2, 1])
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]), directed=True)
        >>> graph.num_edges, graph.degree.tolist(), graph.num_pairs
        (2, [0, 1, 1], 6)
        """
        nodes = node_count(edge_index, num_nodes, batch, ptr)
        batch, ptr = _batch_and_pointer(batch, ptr, nodes, edge_index.device)
        simple = edge_index[0] != edge_index[1]
        position = simple.nonzero().squeeze(1)
        source, target = edge_index[:, position]
        key, sorting = torch.sort(target * nodes + source)
        if bool((key[1:] == key[:-1]).any()):
            raise ValueError(
                "edge_index lists an edge more than once; remove duplicates with torch_geometric.utils.coalesce"
            )
        source, target = source[sorting], target[sorting]
        directions = DIRECTED if directed else UNDIRECTED
        pattern = directions.structure(source, target, nodes)
        if not torch.equal(batch[source], batch[target]):
            raise ValueError("edge_index joins nodes of different graphs of the batch; check the batch vector")
        loops = edge_index.shape[1] - position.numel()
        return Graph(pattern, position[sorting], batch, ptr, loops, directions)

    @property
    def graph(self) -> Graph:
        """Itself: every adjacency knows its clean graph."""
        return self

    @property
    def linear(self) -> bool:
        return True

    @property
    def local(self) -> bool:
        return True

    def neighborhood(self, nodes: Nodes) -> Nodes:
        """The nodes and their neighbors, found once."""
        return nodes.around.once(self, lambda: heard(nodes, self.pattern))

    @property
    def num_nodes(self) -> int:
        """Number of nodes, over all graphs."""
        return self.pattern.rows

    @property
    def num_edges(self) -> int:
        """Number of edges, over all graphs; in an undirected graph both directions are one."""
        return self.pattern.size // self.directions.ends

    @property
    def directed(self) -> bool:
        """Whether the two directions of a pair are kept, dropped and added by themselves."""
        return not self.directions.together

    @property
    def num_graphs(self) -> int:
        """Number of graphs in the batch."""
        return self.ptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """Where the graph lives."""
        return self.batch.device

    @property
    def edge_index(self) -> Tensor:
        """[2, E] in sorted order, without self-loops."""
        return torch.stack([self.pattern.source, self.pattern.target])

    @property
    def given(self) -> Tensor:
        """[2, E] in the order in which the edges came, which weights and attributes of edges follow.

        >>> edges = torch.tensor([[1, 0, 2, 1], [2, 1, 1, 0]])
        >>> torch.equal(Graph.from_edge_index(edges).given, edges)
        True
        """
        if self.self_loops:
            raise ValueError(
                f"the edges came with {self.self_loops} self-loops, which a graph does not keep, so their order is "
                "lost; remove them first (torch_geometric.utils.remove_self_loops)"
            )
        edges = torch.empty_like(self.edge_index)
        edges[:, self.order] = self.edge_index
        return edges

    @remembered
    def degree(self) -> Tensor:
        """Number of neighbors that each node hears, [n]."""
        return self.pattern.rowptr.diff()

    @remembered
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, [B]."""
        return self.ptr.diff()

    @remembered
    def size(self) -> Tensor:
        """Number of nodes of each node's graph, [n]."""
        return self.sizes[self.batch]

    @remembered
    def nonneighbors(self) -> Tensor:
        """Number of nodes of the same graph that are neither the node itself nor a neighbor, [n]."""
        return self.size - 1 - self.degree

    @remembered
    def pair_offset(self) -> Tensor:
        """First rank of each graph in the common index space of all pairs, [B + 1]."""
        return torch.cat([self.ptr[:1], self.directions.count(self.sizes).cumsum(0)])

    @remembered
    def entries(self) -> Tensor:
        """One entry of the pattern for each edge, [m]; their pair ranks ascend."""
        return self.directions.entries(self.pattern)

    @remembered
    def edge_rank(self) -> Tensor:
        """Rank of every edge among all pairs, ascending, [m]."""
        target, source = self.pattern.target[self.entries], self.pattern.source[self.entries]
        graph = self.batch[target]
        first = self.ptr[graph]
        return self.directions.rank(target - first, source - first, self.sizes[graph]) + self.pair_offset[graph]

    @remembered
    def num_pairs(self) -> int:
        """Number of pairs of nodes of the same graph, over all graphs; of ordered pairs in a directed graph."""
        return int(self.pair_offset[-1])

    @property
    def num_nonedges(self) -> int:
        """Number of pairs that are no edge."""
        return self.num_pairs - self.num_edges

    @remembered
    def density(self) -> float:
        """Pooled density Σ|E_g| / Σ n_g(n_g−1)/2, in a directed graph over n_g(n_g−1) ordered pairs."""
        return self.num_edges / max(self.num_pairs, 1)

    @remembered
    def degree_classes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct (degree, graph size) pairs and the class of each node: degrees [U], sizes [U], class [n]."""
        base = int(self.sizes.max()) + 1
        key, index = torch.unique(self.degree * base + self.size, return_inverse=True)
        return key // base, key % base, index

    @remembered
    def edge_classes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct pairs of degree classes joined by edges: class of target [K], of source [K], pair of each edge [E].

        What depends on the two degrees alone is computed for these pairs and gathered once.
        """
        degrees, _, index = self.degree_classes
        count = degrees.numel()
        key = index[self.pattern.target] * count + index[self.pattern.source]
        pairs, of = torch.unique(key, return_inverse=True)
        return pairs // count, pairs % count, of

    @remembered
    def entry_ptr(self) -> Tensor:
        """First entry of each graph in the pattern, [B + 1]."""
        return self.pattern.rowptr[self.ptr]

    def pick(self, index: Tensor) -> Graph:
        """The graphs ``index`` [k] of a batch as a batch of their own: sorted and checked already, only renumbered."""
        ptr, nodes = entries_of_rows(self.ptr, index)
        first, entries = entries_of_rows(self.entry_ptr, index)
        of_node = torch.repeat_interleave(ptr.diff(), output_size=nodes.numel())
        of_entry = torch.repeat_interleave(first.diff(), output_size=entries.numel())
        shift, moved = (ptr[:-1] - self.ptr[index])[of_entry], (first[:-1] - self.entry_ptr[index])[of_entry]
        degree = self.degree[nodes]
        rowptr = torch.cat([first[:1], degree.cumsum(0)])
        source = self.pattern.source[entries] + shift
        pattern = self.pattern.part(rowptr, source, self.pattern.transposition[entries] + moved)
        return Graph(pattern, self.order[entries] + moved, of_node, ptr, 0, self.directions)

    def pool(self, x: Tensor) -> Tensor:
        """Sum over the nodes of each graph, [n, ...] → [B, ...]."""
        if self.num_graphs == 1:
            return x.sum(0, keepdim=True)
        return x.new_zeros(self.num_graphs, *x.shape[1:]).index_add(0, self.batch, x)

    def per_node(self, pooled: Tensor) -> Tensor:
        """The value of each node's graph, [B, ...] → [n, ...] (broadcast for one graph)."""
        return pooled if self.num_graphs == 1 else pooled.index_select(0, self.batch)

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use: for what depends on the graph alone."""
        return self.memo.once(key, build)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device."""
        order, batch, ptr = (tensor.to(device) for tensor in (self.order, self.batch, self.ptr))
        return Graph(self.pattern.to(device), order, batch, ptr, self.self_loops, self.directions)


def heard(nodes: Nodes, *patterns: Pattern) -> Nodes:
    """The nodes and the sources of their entries in any of the patterns."""
    mask = torch.zeros(nodes.total, dtype=torch.bool, device=nodes.index.device)
    mask[nodes.index] = True
    for pattern in patterns:
        mask[pattern.source[entries_of_rows(pattern.rowptr, nodes.index)[1]]] = True
    return Nodes.where(mask)


def node_count(
    edge_index: Tensor, num_nodes: int | None, batch: Tensor | None = None, ptr: Tensor | None = None
) -> int:
    """How many nodes there are; refuses an ``edge_index`` of another shape or kind, or with ids beyond them."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must have shape [2, E], got {list(edge_index.shape)}")
    if edge_index.dtype != torch.long:
        raise ValueError(f"edge_index must hold int64 node ids, got {edge_index.dtype}; convert it with .long()")
    largest = int(edge_index.max()) if edge_index.numel() else -1
    smallest = int(edge_index.min()) if edge_index.numel() else 0
    if num_nodes is None:
        num_nodes = batch.numel() if batch is not None else int(ptr[-1]) if ptr is not None else largest + 1
    if smallest < 0 or largest >= num_nodes:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(
            f"edge_index must hold node ids from 0 to {num_nodes - 1}, got {wrong}; check num_nodes (a model whose "
            "first tensor is not of its nodes takes rade.Graph.from_edge_index(edge_index, num_nodes=...) as the graph)"
        )
    return num_nodes


def _batch_and_pointer(
    batch: Tensor | None, ptr: Tensor | None, nodes: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    if batch is None and ptr is None:
        return torch.zeros(nodes, dtype=torch.long, device=device), torch.tensor([0, nodes], device=device)
    if batch is None:
        assert ptr is not None
        batch = torch.repeat_interleave(ptr.diff())
    if batch.shape != (nodes,) or batch.dtype != torch.long:
        raise ValueError(
            f"batch must give the graph of each of the {nodes} nodes as int64, got {batch.dtype} {list(batch.shape)}"
        )
    if nodes and (bool((batch.diff() < 0).any()) or int(batch[0]) < 0):
        raise ValueError("batch must be ascending, as PyG's Batch makes it: nodes of a graph stand together")
    count = int(batch[-1]) + 1 if nodes else 1
    if ptr is None:
        return batch, row_pointer(batch, count)
    if not torch.equal(ptr, row_pointer(batch, max(count, ptr.numel() - 1))):
        raise ValueError("ptr and batch contradict each other: ptr must hold the first node of each graph of batch")
    return batch, ptr
