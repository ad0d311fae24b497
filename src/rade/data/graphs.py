"""Graphs laid end to end, served as PyG data one at a time or as a batch at once."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from rade.data.edges import pointer
from rade.data.tables import Tables

DATA_BATCH: Any = type(Batch(_base_cls=Data))  # PyG would make this class anew for every batch


class GraphList(Sequence[Data]):
    """The graphs of a graph-level data set; ``batch`` collates without building them one by one."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __len__(self) -> int:
        return self.tables.node_ptr.numel() - 1

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Data]: ...
    def __getitem__(self, index: int | slice) -> Data | Sequence[Data]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        t, i = self.tables, int(index) % len(self)
        begin, end = t.node_ptr[i : i + 2].tolist()
        first, last = t.edge_ptr[i : i + 2].tolist()
        return Data(
            x=widen(t.x[begin:end]),
            edge_index=t.edge_index[:, first:last].long(),
            y=widen(t.y[i : i + 1]),
            num_nodes=end - begin,
        )

    def batch(self, index: Tensor) -> Batch:
        """The graphs ``index`` [B] as one PyG batch, the same as PyG's own collation, in a few tensor operations."""
        t = self.tables
        nodes, node_of = _pieces(t.node_ptr, index)
        edges, edge_of = _pieces(t.edge_ptr, index)
        ptr = pointer(t.node_ptr.diff()[index])
        batch: Any = Batch(_base_cls=DATA_BATCH, batch=node_of, ptr=ptr)
        batch.x = widen(t.x[nodes])
        batch.edge_index = t.edge_index[:, edges].long() + ptr[edge_of]
        batch.y = widen(t.y[index])
        batch.num_nodes = nodes.numel()
        return batch


class GraphBatches:
    """Mini-batches of some graphs; shuffled anew in every pass by a generator seeded once."""

    def __init__(self, graphs: GraphList, index: Tensor, batch_size: int, shuffle: bool = False, seed: int = 0) -> None:
        self.graphs, self.index, self.batch_size, self.shuffle = graphs, index, batch_size, shuffle
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return -(-self.index.numel() // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        count = self.index.numel()
        order = torch.randperm(count, generator=self.generator) if self.shuffle else torch.arange(count)
        for part in torch.split(self.index[order], self.batch_size):
            yield self.graphs.batch(part)


def node_data(tables: Tables) -> Data:
    """The single graph of a node-level data set; a disjoint union of several also gets their ``batch`` vector."""
    owner = torch.repeat_interleave(tables.edge_ptr.diff())
    data = Data(
        x=tables.x,
        edge_index=tables.edge_index.long() + tables.node_ptr[owner],
        y=widen(tables.y),
        num_nodes=int(tables.node_ptr[-1]),
    )
    if tables.node_ptr.numel() > 2:
        data.batch = torch.repeat_interleave(tables.node_ptr.diff())
    return data


def widen(values: Tensor) -> Tensor:
    """Integers stored in a narrow type as int64; floating point as it is."""
    return values if values.is_floating_point() else values.long()


def _pieces(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the pieces ``index``, laid end to end, and to which of them each row belongs."""
    counts = ptr.diff()[index]
    owner = torch.repeat_interleave(counts)
    offset = ptr[:-1][index] - pointer(counts)[:-1]
    return torch.arange(owner.numel()) + offset[owner], owner
