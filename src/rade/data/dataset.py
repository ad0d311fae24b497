"""The one return type of all data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_geometric.data import Data

from rade.data.catalogue import Encoder, Level, Loss, Metric
from rade.data.splits import Split, Splits


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
    def folds(self) -> int:
        """Number of cross-validation folds: 10 for the TU sets, else 0."""
        return self.splits.folds

    def split(self, run: int, seed: int = 0) -> Split:
        """The split of one run: the public or official one (of several, number run), or 60/20/20 % from seed + run."""
        return self.splits.split(run, seed)

    def fold(self, k: int) -> Split:
        """Cross-validation fold k of a TU set; val and test are the held-out fold."""
        return self.splits.fold(k)
