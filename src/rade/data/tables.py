"""A data set as plain tensors: what readers return and what the cache stores."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rade.data.features import csr

Parts = tuple[Tensor, Tensor, Tensor]  # train, val, test


@dataclass(frozen=True)
class Tables:
    """Graphs laid end to end; a node-level data set is one graph.

    Integer tensors may be stored in a narrow type; ``GraphList`` and ``node_data`` widen them.
    """

    x: Tensor  # [N, F], dense or sparse CSR
    edge_index: Tensor  # [2, E], numbered within each graph, sorted, both directions
    y: Tensor  # [N] node classes, [G] graph classes, or [G, T] tasks
    node_ptr: Tensor  # [G + 1]
    edge_ptr: Tensor  # [G + 1]
    splits: tuple[Parts, ...] = ()  # the public or official ones, if any

    def density(self) -> float:
        """Pooled density D = Σ|E_g| / Σ n_g(n_g − 1)/2, |E_g| undirected."""
        nodes = self.node_ptr.diff()
        pairs = int((nodes * (nodes - 1)).sum())
        # A data set of isolated single nodes has no pairs and no edges: its density is 0, not 0/0.
        return self.edge_index.size(1) / pairs if pairs else 0.0

    def state(self) -> dict[str, Any]:
        """Strided tensors and sizes only, so that the file can be read back with ``weights_only=True``."""
        state: dict[str, Any] = {k: v for k, v in vars(self).items() if k not in ("x", "splits")}
        if self.x.layout is torch.sparse_csr:
            state["x"] = [self.x.crow_indices(), self.x.col_indices(), self.x.values(), tuple(self.x.shape)]
        else:
            state["x"] = self.x
        return state | {"splits": [list(parts) for parts in self.splits]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Tables":
        """The inverse of ``state``."""
        x = state["x"] if isinstance(state["x"], Tensor) else csr(*state["x"])
        splits = tuple((train, val, test) for train, val, test in state["splits"])
        return cls(**state | {"x": x, "splits": splits})


def one_graph(x: Tensor, edge_index: Tensor, y: Tensor, *splits: Parts) -> Tables:
    """The tensors of a node-level data set."""
    return Tables(x, edge_index, y, torch.tensor([0, y.size(0)]), torch.tensor([0, edge_index.size(1)]), splits)
