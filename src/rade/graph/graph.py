"""The clean graph, or batch of graphs: one sorted structure and what follows from it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rade.graph.sparse import Pattern, places, row_pointer, stable_order
from rade.runtime import by_fields

HALF = 31  # bits of a graph's size, beside those of a degree


class JoinedGraphs(ValueError):
    """An edge joins nodes of different graphs of a batch."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, or a batch of them, ready for aggregation, sampling and moments. Immutable.

    Build it with `Graph.from_edge_index`. ``pattern`` holds every edge, or both directions of it in an undirected
    graph, sorted by target and source, without self-loops and each once; ``order`` gives the caller's position of each
    of its entries, so that edge weights can follow. Degrees, neighbors and non-neighbors of a node are those that it
    receives messages from.
    """

    pattern: Pattern
    order: Tensor  # [E] position in the caller's edge_index
    batch: Tensor  # [n] graph of each node
    ptr: Tensor  # [B + 1] first node of each graph, in the order of `by_graph`
    directed: bool = False  # whether the two directions of a pair are kept, dropped and added by themselves
    entry: Tensor | None = None  # [given] entry of each edge as given, −1−i for a loop at i; None where all are simple
    by_graph: Tensor | None = None  # [n] nodes graph by graph; None where they come so
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)  # what others find out about it

    @staticmethod
    def from_edge_index(
        edge_index: Tensor,
        num_nodes: int | None = None,
        batch: Tensor | None = None,
        directed: bool | None = None,
    ) -> Graph:
        """Validate and sort a PyG ``edge_index`` [2, E]; one that lacks the reverse of an edge is a directed graph.

        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> graph.num_nodes, graph.num_edges, graph.degree.tolist()
        (3, 2, [1, 2, 1])
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 2]]))
        >>> graph.directed, graph.num_edges, graph.degree.tolist(), graph.num_pairs
        (True, 2, [0, 1, 1], 6)
        """
        nodes = node_count(edge_index, num_nodes, batch)
        batch, ptr, by_graph = _batch_and_pointer(batch, nodes, edge_index.device)
        if ptr.numel() > 2 and not torch.equal(*(batch.index_select(0, ends) for ends in edge_index)):
            raise JoinedGraphs("edge_index joins nodes of different graphs of the batch; check the batch vector")
        source, target, order, entry = _sorted(edge_index, nodes)
        back = stable_order(target, nodes)  # sorted by source as they are, this sorts them by target
        pattern, directed = _structure(source, target, back, nodes, directed)
        if entry is not None and back.numel():
            entry = torch.where(entry < 0, entry, places(back, back.numel())[entry.clamp(min=0)])
        order = back if order is None else order[back]
        return Graph(pattern, order, batch, ptr, directed, entry, by_graph)

    @cached_property
    def num_nodes(self) -> int:
        """Number of nodes, over all graphs."""
        return self.pattern.rows

    @cached_property
    def num_edges(self) -> int:
        """Number of edges, over all graphs; in an undirected graph both directions are one."""
        return self.pattern.size // self.ends

    @cached_property
    def ends(self) -> int:
        """In how many degrees an edge counts: its target's, or its source's as well."""
        return 1 if self.directed else 2

    @cached_property
    def num_graphs(self) -> int:
        """Number of graphs in the batch."""
        return self.ptr.numel() - 1

    @cached_property
    def device(self) -> torch.device:
        """Where the graph lives."""
        return self.batch.device

    @property
    def edge_index(self) -> Tensor:
        """[2, E] in sorted order, without self-loops."""
        return torch.stack([self.pattern.source, self.pattern.target])

    @property
    def given(self) -> Tensor:
        """[2, given] the caller's edge_index, in its order, self-loops and repetitions included."""
        found = self.edge_index
        if self.entry is None:
            return torch.empty_like(found).index_copy_(1, self.order, found)
        own = torch.stack([-1 - self.entry] * 2)
        return torch.where(own < 0, found[:, self.entry.clamp(min=0)], own) if self.pattern.size else own

    @property
    def num_given(self) -> int:
        """How many edges the caller's edge_index had, self-loops and repetitions among them."""
        return self.pattern.size if self.entry is None else self.entry.numel()

    @cached_property
    def self_loops(self) -> int:
        """How many self-loops were given."""
        return 0 if self.entry is None else int((self.entry < 0).sum())

    @cached_property
    def repeated(self) -> bool:
        """Whether an edge was given more than once."""
        return self.num_given - self.self_loops > self.pattern.size

    @cached_property
    def degree(self) -> Tensor:
        """Number of neighbors that each node receives messages from, [n]."""
        return self.pattern.lengths

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph, [B]."""
        return self.ptr.diff()

    @cached_property
    def size(self) -> Tensor:
        """Number of nodes of each node's graph, [n]."""
        return self.sizes.index_select(0, self.batch)

    @cached_property
    def nonneighbors(self) -> Tensor:
        """Number of nodes of the same graph that are neither the node itself nor a neighbor, [n]."""
        return self.size - 1 - self.degree

    @cached_property
    def pair_rows(self) -> tuple[Tensor, Tensor]:
        """All pairs of nodes of the same graph are numbered by rows, in the order of `by_graph`.

        A row holds the pairs of a node with those after it, in a directed graph with all others. Where the ranks of
        each row end [n], and what added to the column of a pair gives its rank, [n].
        """
        graph = self.batch if self.by_graph is None else self.batch[self.by_graph]
        if self.directed:
            first, columns = self.ptr.index_select(0, graph), self.sizes.index_select(0, graph) - 1
        else:
            first = torch.arange(1, self.num_nodes + 1, device=self.device)
            columns = self.ptr[1:].index_select(0, graph) - first
        ends = columns.cumsum(0)
        return ends, ends - columns - first

    @cached_property
    def entries(self) -> Tensor:
        """One entry of the pattern for each edge, [m]."""
        return self.one_per_pair(self.pattern)

    @cached_property
    def edge_rank(self) -> Tensor:
        """Ranks of the edges among all pairs, ascending, [m]."""
        row = self.pattern.target.index_select(0, self.entries)
        column = self.pattern.source.index_select(0, self.entries)
        if self.by_graph is not None:
            place = torch.argsort(self.by_graph)
            row, column = place[row], place[column]
            if not self.directed:
                row, column = torch.minimum(row, column), torch.maximum(row, column)
        rank = self.pair_rows[1].index_select(0, row) + column
        rank = rank - (column > row).long() if self.directed else rank
        return rank if self.by_graph is None else rank.sort().values

    @cached_property
    def num_pairs(self) -> int:
        """Number of pairs of nodes of the same graph, over all graphs; of ordered pairs in a directed graph."""
        return int(self.pair_rows[0][-1]) if self.num_nodes else 0

    @cached_property
    def num_nonedges(self) -> int:
        """Number of pairs that are no edge."""
        return self.num_pairs - self.num_edges

    @cached_property
    def density(self) -> float:
        """Pooled density Σ|E_g| / Σ n_g(n_g−1)/2, in a directed graph over n_g(n_g−1) ordered pairs."""
        return self.num_edges / max(self.num_pairs, 1)

    @cached_property
    def degree_class(self) -> Tensor:
        """Degree and graph size of each node as one number, [n]: nodes that share it share the moments of degrees."""
        return (self.degree << HALF) + self.size

    @cached_property
    def degree_classes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Distinct (degree, graph size) pairs and the class of each node: degrees [U], sizes [U], class [n]."""
        key, index = torch.unique(self.degree_class, return_inverse=True)
        return key >> HALF, key & (2**HALF - 1), index

    def one_per_pair(self, pattern: Pattern) -> Tensor:
        """One entry of a pattern on these nodes for each of its pairs."""
        if self.directed:
            return torch.arange(pattern.size, device=pattern.source.device)
        return (pattern.target < pattern.source).nonzero().squeeze(1)

    def reverse(self, values: Tensor, pattern: Pattern) -> Tensor:
        """For every entry the value of the other direction of its pair, [E, ...]; 0 where that is another pair."""
        return torch.zeros_like(values) if self.directed else values[pattern.transposition]

    @cached_property
    def edge_of_entry(self) -> Tensor:
        """Which edge [m] each entry of the pattern belongs to, [E]."""
        number = torch.arange(self.num_edges, device=self.device)
        if self.directed:
            return number
        found = torch.empty_like(self.pattern.source).scatter_(0, self.entries, number)
        return found.scatter_(0, self.pattern.transposition.index_select(0, self.entries), number)

    def pairs_at(self, rank: Tensor) -> Pattern:
        """The pairs at ascending ranks, as a pattern."""
        ends, shift = self.pair_rows
        row = torch.searchsorted(ends, rank, right=True)
        column = rank - shift.index_select(0, row)
        column = column + (column >= row).long() if self.directed else column
        if self.by_graph is not None:
            row, column = self.by_graph[row], self.by_graph[column]
            if not self.directed:
                row, column = torch.minimum(row, column), torch.maximum(row, column)
            order = torch.argsort(row * self.num_nodes + column)
            row, column = row[order], column[order]
        return Pattern.of_pairs(row, column, self.num_nodes, self.directed)

    def pool(self, x: Tensor) -> Tensor:
        """Sum over the nodes of each graph, [n, ...] → [B, ...]."""
        if self.num_graphs == 1:
            return x.sum(0, keepdim=True)
        return x.new_zeros(self.num_graphs, *x.shape[1:]).index_add(0, self.batch, x)

    def per_node(self, pooled: Tensor) -> Tensor:
        """The value of each node's graph, [B, ...] → [n, ...] (broadcast for one graph)."""
        return pooled if self.num_graphs == 1 else pooled.index_select(0, self.batch)

    @cached_property
    def members(self) -> Members:
        """Which graph each node is of."""
        return Members(self.batch, self.num_graphs, self.by_graph is None)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return by_fields(self)


class Members:
    """Which graph of a batch each of some nodes is of, and sums over those of each."""

    def __init__(self, graph: Tensor, count: int, in_order: bool = False) -> None:
        self.graph, self.count, self.in_order = graph, count, in_order  # [k], number of graphs; whether k ascend

    def at(self, nodes: Tensor) -> Members:
        """Those of some nodes [k]."""
        return Members(self.graph[nodes], self.count)

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """A row of nodes for each graph, as a CSR matrix has them; and the nodes in that order, None if they are so."""
        if self.in_order:
            nodes = torch.arange(self.graph.numel(), dtype=torch.int, device=self.graph.device)
            return row_pointer(self.graph, self.count).int(), nodes, None
        order = stable_order(self.graph, self.count)
        return row_pointer(self.graph[order], self.count).int(), order.int(), order

    def sums(self, weights: Tensor, x: Tensor) -> Tensor:
        """Σ over each graph of weights [k] times x [k, F], as one sparse product, [B, F]."""
        pointer, nodes, order = self._rows
        values = weights.contiguous() if order is None else weights.index_select(0, order)
        matrix = torch.sparse_csr_tensor(pointer, nodes, values, (self.count, x.shape[0]), check_invariants=False)
        out = x.new_empty(self.count, x.shape[1])
        return torch.addmm(out, matrix, x, beta=0.0, out=out)

    @cached_property
    def _one_each(self) -> tuple[Tensor, Tensor]:
        return torch.arange(self.graph.numel() + 1, dtype=torch.int, device=self.graph.device), self.graph.int()

    def spread(self, weights: Tensor) -> Tensor:
        """The sparse matrix [k, B] that gives each node weights [k] times the value of its graph."""
        pointer, graphs = self._one_each
        size = (self.graph.numel(), self.count)
        return torch.sparse_csr_tensor(pointer, graphs, weights.contiguous(), size, check_invariants=False)


def _sorted(edge_index: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Sources and targets, sorted by both, each edge once and no loop; the position of each as given, None if the same.

    Last, where there were loops or repetitions, the place of every given edge among these, −1−i for a loop at i.
    """
    source, target = edge_index
    key, loops = source * nodes + target, source == target
    simple = not bool(loops.any())
    if simple and bool((key[1:] > key[:-1]).all()):  # as `torch_geometric.utils.coalesce` leaves them
        return source, target, None, None
    key, order = torch.sort(key, stable=True)
    first = torch.ones_like(loops)
    first[1:] = key[1:] != key[:-1]
    if simple and bool(first.all()):
        return source[order], target[order], order, None
    first &= ~loops[order]
    entry = torch.where(loops, -1 - source, torch.empty_like(source).index_copy_(0, order, first.cumsum(0) - 1))
    order = order[first]
    return source[order], target[order], order, entry


def _structure(source: Tensor, target: Tensor, back: Tensor, nodes: int, directed: bool | None) -> tuple[Pattern, bool]:
    """The pattern of edges sorted by source and target, and in the order ``back`` by target; whether it is directed."""
    rows, columns = target.index_select(0, back), source.index_select(0, back)
    if not directed and torch.equal(rows, source) and torch.equal(columns, target):
        return Pattern.of_rows(rows, columns, nodes, back), False
    if directed is False:
        raise ValueError(
            "directed=False, but edge_index lacks the reverse of some edges; add them with "
            "torch_geometric.utils.to_undirected, or leave directed out"
        )
    return Pattern(row_pointer(rows, nodes), columns, nodes, places(back, back.numel()), symmetric=False), True


def node_count(edge_index: Tensor, num_nodes: int | None, batch: Tensor | None = None) -> int:
    """How many nodes there are; refuses an ``edge_index`` of another shape or kind, or with ids beyond them."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must have shape [2, E], got {list(edge_index.shape)}")
    if edge_index.dtype != torch.long:
        raise ValueError(f"edge_index must hold int64 node ids, got {edge_index.dtype}; convert it with .long()")
    smallest, largest = map(int, edge_index.aminmax()) if edge_index.numel() else (0, -1)
    if num_nodes is None:
        num_nodes = largest + 1 if batch is None else batch.numel()
    if smallest < 0 or largest >= num_nodes:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(f"edge_index must hold node ids from 0 to {num_nodes - 1}, got {wrong}; check num_nodes")
    return num_nodes


def _batch_and_pointer(
    batch: Tensor | None, nodes: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The graph of each node, the first node of each graph, and nodes graph by graph where they come otherwise."""
    if batch is None:
        return torch.zeros(nodes, dtype=torch.long, device=device), torch.tensor([0, nodes], device=device), None
    if batch.shape != (nodes,) or batch.dtype != torch.long:
        raise ValueError(
            f"batch must give the graph of each of the {nodes} nodes as int64, got {batch.dtype} {list(batch.shape)}"
        )
    by_graph = None if torch.equal(batch, batch.cummax(0).values) else torch.argsort(batch, stable=True)
    ordered = batch if by_graph is None else batch[by_graph]
    smallest, largest = map(int, batch.aminmax()) if nodes else (0, 0)
    if smallest < 0:
        raise ValueError(f"batch must number graphs from 0, got {smallest}")
    # A copy: what is recalled of the vector must not keep its memory alive.
    return batch.clone(), row_pointer(ordered, largest + 1), by_graph
