"""Graphs corrupted on purpose: some real edges dropped, random ones added, the same for the same seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from rade.data import Dataset, GraphList
from rade.data.dataset import Provenance
from rade.graph.graph import Graph
from rade.train.errors import SettingsError
from rade.view.rates import Rates
from rade.view.sampling import sample_view


@dataclass(frozen=True)
class Corruption:
    """``drop`` of all edges are lost, and ``add`` times as many spurious ones appear between random nodes.

    >>> Corruption(drop=0.3, add=1.0).share
    0.588...
    """

    drop: float = 0.0
    add: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.drop < 1.0:
            raise SettingsError(f"the share of dropped edges must lie in [0, 1), got {self.drop:g}")
        if not 0.0 <= self.add <= 1000.0:
            raise SettingsError(f"spurious edges over real ones must lie in [0, 1000], got {self.add:g}")

    @staticmethod
    def parse(text: str) -> "Corruption":
        """`DROP,ADD` or `DROP,ADD,SEED`.

        >>> Corruption.parse("0.3,1")
        Corruption(drop=0.3, add=1.0, seed=0)
        """
        parts = text.split(",")
        try:
            drop, add = float(parts[0]), float(parts[1])
            seed = int(parts[2]) if len(parts) > 2 else 0
        except (ValueError, IndexError):
            raise SettingsError(f"a corruption is DROP,ADD or DROP,ADD,SEED, e.g. 0.3,1.0, got {text!r}") from None
        if len(parts) > 3 or seed < 0:
            raise SettingsError(f"a corruption is DROP,ADD or DROP,ADD,SEED with a seed of at least 0, got {text!r}")
        return Corruption(drop, add, seed)

    @property
    def share(self) -> float:
        """The share of spurious edges among those observed."""
        return self.add / (self.add + 1.0 - self.drop) if self.add else 0.0

    def told(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a data set's origin with this corruption among them, if it changes anything."""
        if self.drop == 0.0 and self.add == 0.0:
            return dict(options)
        return {**options, "corrupted": {"drop": self.drop, "add": self.add, "seed": self.seed}}

    def rates(self, graph: Graph) -> Rates:
        """p and q on a clean graph."""
        return Rates(self.drop, min(self.add * graph.num_edges / max(graph.num_nonedges, 1), 1.0))

    def of(self, graph: Graph) -> Graph:
        """The corrupted graph; graphs of a batch stay apart."""
        source = torch.Generator(graph.device).manual_seed(self.seed)
        view = sample_view(graph, self.rates(graph), source)
        return Graph.from_edge_index(view.edge_index, graph.num_nodes, graph.batch, graph.ptr)

    def of_dataset(self, dataset: Dataset) -> Dataset:
        """The same data set with its graphs corrupted."""
        if self.drop == 0.0 and self.add == 0.0:
            return dataset
        graphs = self._list(dataset.graphs) if isinstance(dataset.graphs, GraphList) else self._each(dataset.graphs)
        origin = dataset.provenance
        provenance = Provenance(origin.source, origin.licence, origin.files, self.told(origin.options))
        density = dataset.density * (1.0 - self.drop + self.add)
        return replace(dataset, graphs=graphs, provenance=provenance, density=min(density, 1.0))

    def _each(self, graphs: Sequence[Data]) -> tuple[Data, ...]:
        found = []
        for data in graphs:
            changed = data.clone()
            clean = Graph.from_edge_index(data.edge_index, data.num_nodes, data.get("batch"))
            changed.edge_index = self.of(clean).edge_index
            found.append(changed)
        return tuple(found)

    def _list(self, graphs: GraphList) -> GraphList:
        """All graphs at once, as one batch whose pairs never cross graphs."""
        tables = graphs.tables
        owner = torch.repeat_interleave(tables.edge_ptr.diff())
        clean = Graph.from_edge_index(
            tables.edge_index.long() + tables.node_ptr[owner], int(tables.node_ptr[-1]), None, tables.node_ptr
        )
        edges = self.of(clean).edge_index
        of = clean.batch[edges[0]]
        local: Tensor = (edges - tables.node_ptr[of]).to(tables.edge_index.dtype)
        pointer = torch.cat([of.new_zeros(1), torch.bincount(of, minlength=len(graphs)).cumsum(0)])
        return GraphList(replace(tables, edge_index=local, edge_ptr=pointer))
