"""Some nodes of a graph: the rows that a layer is asked for, or those whose features it is given."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from rade.memory import Memo, Recall, remembered

KEPT = 2  # graphs on which the neighborhood of some nodes is known; each is kept alive by it
FEW = 0.75  # below this part of all nodes, leaving the others out pays for picking their rows


@dataclass(frozen=True, eq=False)
class Nodes:
    """Distinct nodes out of ``total``, in any order; hashed by identity, so that what follows from them can be kept."""

    index: Tensor  # [k]
    total: int
    memo: Memo = field(default_factory=Memo, init=False, repr=False)
    around: Memo = field(default_factory=lambda: Memo(KEPT), init=False, repr=False)  # neighborhoods by graph
    features: Recall[Tensor] = field(default_factory=Recall, init=False, repr=False)

    @property
    def count(self) -> int:
        """How many they are."""
        return self.index.numel()

    @property
    def few(self) -> bool:
        """Whether it pays to compute a layer for these nodes only."""
        return self.count <= FEW * self.total

    @remembered
    def everybody(self) -> bool:
        """Whether they are all nodes, in order."""
        return self.count == self.total and bool((self.index.diff() > 0).all())

    @remembered
    def position(self) -> Tensor:
        """Place of every node among these, −1 for the others, [total]."""
        place = self.index.new_full((self.total,), -1)
        place[self.index] = torch.arange(self.count, device=place.device)
        return place

    def union(self, other: Nodes) -> Nodes:
        """These and the others, ascending."""
        return Nodes.where((self.position >= 0) | (other.position >= 0))

    @staticmethod
    def where(chosen: Tensor) -> Nodes:
        """Those where a mask [total] holds, ascending."""
        return Nodes(chosen.nonzero().squeeze(1), chosen.numel())


_known: Recall[Nodes] = Recall()
_picked: Recall[Tensor] = Recall()


def nodes_of(rows: Tensor, total: int) -> Nodes:
    """Row ids [k] as nodes, checked once for each tensor in memory."""
    # A clone: what is recalled must not keep the memory that it is recalled by.
    return _known.get((rows,), total, lambda: _checked(rows.clone(), total))


def picked(nodes: Tensor, rows: Tensor) -> Tensor:
    """nodes[rows], the same tensor each time, so that what follows from it is recalled."""
    return _picked.get((nodes, rows), None, lambda: nodes[rows])


def _checked(rows: Tensor, total: int) -> Nodes:
    if rows.dtype != torch.long or rows.dim() != 1:
        raise ValueError(f"rows must be a vector of int64 node ids, got {rows.dtype} {list(rows.shape)}")
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < total:
        raise ValueError(f"rows must lie between 0 and {total - 1}, got {int(rows.min())} to {int(rows.max())}")
    if rows.numel() and int(torch.bincount(rows, minlength=total).max()) > 1:
        raise ValueError("rows must name each node at most once; use torch.unique")
    return Nodes(rows, total)
