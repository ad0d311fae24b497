"""The one return type of all data sets: graphs as PyG data, one at a time or as a batch at once, and their splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from rade.data.catalogue import Encoder, Entry, Level, Loss, Metric
from rade.data.tensors import Split, Tables
from rade.graph.sparse import entries_of_rows

DATA_BATCH: Any = type(Batch(_base_cls=Data))  # PyG would make this class anew for every batch


@dataclass(frozen=True)
class FixedSplit:
    """A public or official split, the same in every run; of several, run r takes number r, and then they begin again.

    Their validation parts are not their test parts, so they are no folds.
    """

    fixed: Split
    others: tuple[Split, ...] = ()
    folds: ClassVar[int] = 0

    def split(self, run: int, seed: int = 0) -> Split:
        """Split number run; the seed plays no part."""
        return (self.fixed, *self.others)[run % (1 + len(self.others))]


@dataclass(frozen=True)
class RandomSplit:
    """60/20/20 % at random, a new permutation per run, seeded by seed + run."""

    count: int
    folds: ClassVar[int] = 0

    def split(self, run: int, seed: int = 0) -> Split:
        """Sizes ⌊0.6 n⌋, ⌊0.2 n⌋ and the rest."""
        return shares(torch.randperm(self.count, generator=torch.Generator().manual_seed(seed + run)))


@dataclass(frozen=True)
class StratifiedFolds:
    """Ten stratified folds with seed 0, the protocol of the TU sets; val and test are the held-out fold."""

    y: Tensor
    folds: ClassVar[int] = 10

    def split(self, run: int, seed: int = 0) -> Split:
        """Run r holds out fold r mod 10 and trains on the others; the folds never depend on the seed."""
        return self._every[run % self.folds]

    @cached_property
    def _every(self) -> list[Split]:
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(self.folds, shuffle=True, random_state=0).split(self.y, self.y)
        parts = [(torch.from_numpy(train), torch.from_numpy(held_out)) for train, held_out in folds]
        return [Split(train, held_out, held_out) for train, held_out in parts]


Splits = FixedSplit | RandomSplit | StratifiedFolds


def shares(order: Tensor) -> Split:
    """60/20/20 % of a permutation, each part sorted."""
    train, val = len(order) * 6 // 10, len(order) * 2 // 10
    sizes = [train, val, len(order) - train - val]
    return Split(*(part.sort().values for part in torch.split(order, sizes)))


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from: source, licence, and the sha256 of every file (or the options) behind it."""

    source: str
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Dataset:
    """Graphs with a task.

    Node level: ``graphs`` holds exactly one PyG ``Data``; its ``x`` is sparse CSR where fewer than a tenth of
    the entries are set. Graph level: a list-like of ``Data`` that also collates (``graphs.batch(index)``).
    Edges have both directions, no duplicates and no self-loops. ``y`` holds int64 classes [n] (node) or [1]
    (graph), or float targets [n, classes] or [1, classes] for the losses "binary" and "multilabel".
    """

    name: str
    level: Level
    graphs: Sequence[Data]
    metric: Metric
    loss: Loss
    classes: int
    features: int
    encoder: Encoder
    provenance: Provenance
    splits: Splits
    density: float  # pooled: Σ|E_g| / Σ n_g(n_g − 1)/2

    def __repr__(self) -> str:
        """A line; tensors and checksums stay in the fields."""
        what = f"{self.graphs[0].num_nodes:,} nodes" if self.level == "node" else f"{len(self.graphs):,} graphs"
        return f"Dataset({self.name!r}, {what}, {self.features} features, {self.classes} classes, {self.metric})"

    @property
    def origin(self) -> dict[str, Any]:
        """What tells it from others, as records have it: name, source, licence, files and options."""
        return {"name": self.name, **vars(self.provenance)}

    @property
    def folds(self) -> int:
        """Number of cross-validation folds: 10 for the TU sets, else 0."""
        return self.splits.folds

    def split(self, run: int, seed: int = 0) -> Split:
        """The split of one run: a public or official one, 60/20/20 % from seed + run, or a fold held out."""
        return self.splits.split(run, seed)


def assemble(entry: Entry, tables: Tables, splits: Splits, provenance: Provenance, classes: int) -> Dataset:
    """The data set of an entry from its tensors."""
    return Dataset(
        name=entry.name,
        level=entry.level,
        graphs=GraphList(tables) if entry.level == "graph" else (node_data(tables),),
        metric=entry.metric,
        loss=entry.loss,
        classes=classes,
        features=tables.x.size(1),
        encoder=entry.encoder,
        provenance=provenance,
        splits=splits,
        density=tables.density(),
    )


class GraphList(Sequence[Data]):
    """The graphs of a graph-level data set; ``batch`` collates without building them one by one."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __len__(self) -> int:
        return self.tables.node_ptr.numel() - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        t, i = self.tables, int(index) % len(self)
        begin, end = t.node_ptr[i : i + 2].tolist()
        first, last = t.edge_ptr[i : i + 2].tolist()
        edge_index, y = t.edge_index[:, first:last].long(), _widened(t.y[i : i + 1])
        return Data(x=_widened(t.x[begin:end]), edge_index=edge_index, y=y, num_nodes=end - begin)

    def batch(self, index: Tensor) -> Batch:
        """The graphs ``index`` [B] as one PyG batch, the same as PyG's own collation, in a few tensor operations."""
        t = self.tables
        ptr, nodes = entries_of_rows(t.node_ptr, index)
        edge_ptr, edges = entries_of_rows(t.edge_ptr, index)
        batch: Any = Batch(_base_cls=DATA_BATCH, batch=torch.repeat_interleave(ptr.diff()), ptr=ptr)
        batch.x = _widened(t.x[nodes])
        batch.edge_index = t.edge_index[:, edges].long() + ptr[torch.repeat_interleave(edge_ptr.diff())]
        batch.y = _widened(t.y[index])
        batch.num_nodes = nodes.numel()
        return batch


def node_data(tables: Tables) -> Data:
    """The single graph of a node-level data set; a disjoint union of several also gets their ``batch`` vector."""
    owner = torch.repeat_interleave(tables.edge_ptr.diff())
    edge_index = tables.edge_index.long() + tables.node_ptr[owner]
    data = Data(x=tables.x, edge_index=edge_index, y=_widened(tables.y), num_nodes=int(tables.node_ptr[-1]))
    if tables.node_ptr.numel() > 2:
        data.batch = torch.repeat_interleave(tables.node_ptr.diff())
    return data


def _widened(values: Tensor) -> Tensor:
    """Integers stored in a narrow type as int64; floating point as it is."""
    return values if values.is_floating_point() else values.long()
