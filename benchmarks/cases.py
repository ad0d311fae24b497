"""Data sets and their corrupted graphs, with what all models may use about them, for `predictions.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from competitors import RANKS, Spectrum
from torch import Tensor

import rade
from rade.noise import CommonNeighbors, EdgeEvidence, Similarity, cosine
from rade.noise.edges import similarity_of_edges
from rade.train.stages import Corruption

# Rows of some data sets sum to 1 and learn slowly as they are: features are multiplied.
FACTOR = {"cs": 8.0, "computer": 16.0, "pubmed": 8.0, "physics": 8.0}
GRAM_ABOVE, GRAM_NODES = 200, 15_000  # entries per row and nodes at which all cosines are computed at once


@dataclass(frozen=True)
class Task:
    """A data set ready for training."""

    name: str
    x: Tensor
    y: Tensor
    graph: rade.Graph
    dataset: rade.data.Dataset
    near: Similarity  # by raw features

    @staticmethod
    def of(name: str) -> "Task":
        dataset = rade.data.load(name)
        data = dataset.graphs[0]
        x = data.x if data.x.layout != torch.strided else data.x.to_sparse_csr()
        values = x.values() * FACTOR.get(name, 1.0)
        scaled = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
        graph = rade.Graph.from_edge_index(data.edge_index, x.shape[0])
        return Task(name, scaled, data.y, graph, dataset, Kept(scaled))


class Kept(Similarity):
    """Cosines of raw features, of random pairs computed once for all graphs, of full rows by one matrix product."""

    name = "features"

    def __init__(self, x: Tensor) -> None:
        self.x, self.random = x, (torch.empty(2, 0), torch.empty(0))

    @cached_property
    def gram(self) -> Tensor | None:
        if self.x.values().numel() < GRAM_ABOVE * self.x.shape[0] or self.x.shape[0] > GRAM_NODES:
            return None
        unit = F.normalize(self.x.to_dense(), dim=1)
        return unit @ unit.t()

    def of(self, graph: rade.Graph, pairs: Tensor) -> Tensor:
        if self.gram is not None:
            return self.gram[pairs[0], pairs[1]]
        if not torch.equal(pairs, self.random[0]):
            found = cosine(self.x, pairs)
            if pairs.shape[1] == 32 * graph.num_nodes:  # the partners, equal for graphs of equal size
                self.random = pairs, found
            return found
        return self.random[1]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


T = TypeVar("T")


@dataclass(frozen=True)
class Stored(Similarity):
    """A similarity whose values are kept in files: those of common neighbors take longer than all passes of a model."""

    similarity: Similarity
    keep: Callable[[str, Callable[[], Tensor]], Tensor]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.similarity.name

    def of(self, graph: rade.Graph, pairs: Tensor) -> Tensor:
        return self.keep(f"common-{pairs.shape[1]}", lambda: self.similarity.of(graph, pairs))


@dataclass(frozen=True)
class Case:
    """A corrupted graph and what all models may use about it."""

    task: Task
    corruption: Corruption
    graph: rade.Graph
    folder: Path | None = None  # keeps what depends on the graph alone

    def keep(self, name: str, build: Callable[[], T]) -> T:
        if self.folder is None:
            return build()
        value = self.corruption
        path = self.folder / f"{self.task.name}-{value.seed}-{value.drop:g}-{value.add:g}-{name}.pt"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save(build(), path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
        found: T = torch.load(path, weights_only=True)
        return found

    @cached_property
    def features(self) -> EdgeEvidence:
        return EdgeEvidence.of(self.graph, self.task.near, generator())

    @cached_property
    def common(self) -> EdgeEvidence:
        return EdgeEvidence.of(self.graph, Stored(CommonNeighbors(), self.keep), generator())

    @cached_property
    def near(self) -> dict[str, Tensor]:
        """The similarity of all edges, by the way that cuts by it."""
        kinds = {"cut": self.task.near, "cut-common": Stored(CommonNeighbors(), self.keep)}
        return {name: similarity_of_edges(self.graph, kind) for name, kind in kinds.items()}

    @cached_property
    def spectrum(self) -> Spectrum:
        def build() -> tuple[Tensor, Tensor]:
            found = Spectrum.of(self.graph, max(RANKS))
            return found.values, found.vectors

        return Spectrum(*self.keep(f"subspace-{max(RANKS)}", build))
