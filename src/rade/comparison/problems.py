"""The user's data as a comparison sees it: one graph with masks, or many graphs that are split by the seed."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from torch_geometric.data import Data

from rade.data.splits import Split
from rade.graph.graph import node_count
from rade.train.seeds import generator

PARTS = ("train", "val", "test")
SHARES = (0.8, 0.9)  # where training and where validation graphs end, of all


@dataclass(frozen=True, eq=False)
class Problem(ABC):
    """Data with labels and a split for every seed.

    Attributes:
        graphs: all graphs; a single one where its nodes are labelled.
    """

    graphs: tuple[Data, ...]

    @property
    @abstractmethod
    def labels(self) -> Tensor:
        """Of all nodes or graphs, [N] or [N, C]."""

    @property
    @abstractmethod
    def ratio(self) -> float:
        """Test over training items where splits are drawn from the same items (Nadeau and Bengio), else 0."""

    @abstractmethod
    def split(self, seed: int) -> Split:
        """Which nodes or graphs are for what."""

    @property
    def density(self) -> float:
        """Edges over pairs of nodes, of all graphs together."""
        edges = sum(int(data.num_edges) for data in self.graphs)
        return edges / max(1, sum(int(data.num_nodes) * (int(data.num_nodes) - 1) for data in self.graphs))

    @property
    def fingerprint(self) -> str:
        """A hash of all tensors."""
        found = hashlib.sha256()
        for data in self.graphs:
            for name in sorted(data.keys()):
                value = data[name]
                found.update(f"{name} {_bytes(value)!r}".encode())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Nodes(Problem):
    """One graph whose nodes have labels and masks; columns of a mask are splits, taken in turn."""

    @property
    def ratio(self) -> float:
        """Masks are given splits."""
        return 0.0

    @property
    def labels(self) -> Tensor:
        """Of all nodes."""
        return rows_of(self.graphs[0].y)

    def split(self, seed: int) -> Split:
        """The masks' own, or column number ``seed``."""
        masks = [self.graphs[0][f"{part}_mask"] for part in PARTS]
        columns = [mask if mask.dim() == 1 else mask[:, seed % mask.shape[1]] for mask in masks]
        return Split(*(column.nonzero().squeeze(1) for column in columns))


@dataclass(frozen=True, eq=False)
class Graphs(Problem):
    """Many graphs with a label each; 80, 10 and 10 % at random, classes in proportion."""

    @property
    def labels(self) -> Tensor:
        """Of all graphs."""
        return rows_of(torch.stack([_of_one(data.y) for data in self.graphs]))

    @property
    def ratio(self) -> float:
        """Splits share most of their training graphs, so their scores are no independent draws."""
        return (1 - SHARES[1]) / SHARES[0]

    def split(self, seed: int) -> Split:
        """Each class is shuffled and spread evenly over [0, 1); then the line is cut."""
        draws, labels = generator(seed, 5), self.labels
        classes = labels if labels.dim() == 1 and not labels.is_floating_point() else torch.zeros(len(labels)).long()
        place = torch.empty(len(labels), dtype=torch.double)
        for one in torch.unique(classes):
            members = (classes == one).nonzero().squeeze(1)
            order = torch.randperm(len(members), generator=draws).double()
            place[members] = (order + torch.rand((), generator=draws).double()) / len(members)
        ends = [round(share * len(labels)) for share in SHARES]
        parts = torch.tensor_split(place.argsort(), ends)
        return Split(*(part.sort().values for part in parts))


def problem_of(data: Any) -> Problem:
    """The problem in a `Data` object with masks, or in a sequence or data set of graphs."""
    if isinstance(data, Data):
        return _nodes(data)
    graphs = tuple(_each(data))
    if len(graphs) == 1 and "train_mask" in graphs[0]:
        return _nodes(graphs[0])
    if len(graphs) < 10:
        raise ValueError(f"graphs are split 80/10/10 %, so there must be at least 10, got {len(graphs)}")
    for data in graphs:
        if data.y is None:
            raise ValueError("every graph needs a label, data.y, and one has none")
        if data.edge_index is not None:
            node_count(data.edge_index, data.num_nodes)
    return Graphs(graphs)


def _each(data: Any) -> Iterator[Data]:
    if not isinstance(data, Sequence | Dataset):
        raise TypeError(
            f"expected a PyG Data object, a list or data set of them, or a rade.data set, got {type(data).__name__}"
        )
    for index in range(len(data)):  # type: ignore[arg-type]
        if not isinstance(data[index], Data):
            raise TypeError(f"expected graphs as PyG Data objects, got {type(data[index]).__name__}")
        yield data[index]


def _nodes(data: Data) -> Nodes:
    if data.y is None or data.edge_index is None:
        raise ValueError("the data needs labels, data.y, and edges, data.edge_index")
    node_count(data.edge_index, data.num_nodes)
    if len(data.y) != data.num_nodes:
        raise ValueError(f"the data needs a label for each of its {data.num_nodes} nodes, got {len(data.y)} in data.y")
    for part in PARTS:
        mask = data.get(f"{part}_mask")
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape[0] != data.num_nodes:
            raise ValueError(
                f"the data needs a bool {part}_mask [{data.num_nodes}] or [{data.num_nodes}, splits]; "
                "torch_geometric.transforms.RandomNodeSplit() makes all three"
            )
        if not bool(mask.any(0).all()):
            raise ValueError(f"{part}_mask selects no node; training, validation and test need some each")
    for one, other in combinations(PARTS, 2):
        masks = (data[f"{part}_mask"].view(data.num_nodes, -1) for part in (one, other))
        shared = int(torch.logical_and(*masks).any(1).sum())
        if shared:
            raise ValueError(
                f"{one}_mask and {other}_mask share {shared} nodes, so scores would say nothing; parts must be apart"
            )
    return Nodes((data,))


def rows_of(labels: Tensor) -> Tensor:
    """[N, 1] as [N]."""
    return labels.squeeze(1) if labels.dim() == 2 and labels.shape[1] == 1 else labels


def _of_one(label: Any) -> Tensor:
    """The label of one graph: a number, [1], [C] or [1, C]."""
    found = torch.as_tensor(label).reshape(-1)
    return found[0] if found.numel() == 1 else found


def _bytes(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    whole = value.detach().cpu()
    parts = [whole] if whole.layout is torch.strided else [whole.to_dense()]
    return [str(value.dtype), list(value.shape), hashlib.sha256(parts[0].contiguous().numpy().tobytes()).hexdigest()]
