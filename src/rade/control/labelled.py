"""Which rows of the logits the loss was taken over, which of their labels are known, and the loss itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.memory import Recall


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a training step's loss was taken over.

    Attributes:
        rows: int64 ids or a bool mask of the logits' rows; all by default.
        known: which labels of those rows are known, broadcastable to [|rows|, C].
        loss: from clean logits to the training loss, for rules with ``data_gradient="clean"``.
        weight: under data-parallel training with uneven parts, the factor by which this process's loss was multiplied
            so that the mean over processes is the loss of the whole batch.
    """

    rows: Tensor | None = None
    known: Tensor | None = None
    loss: Callable[[Tensor], Tensor] | None = None
    weight: float = 1.0

    @staticmethod
    def of(value: object) -> Labelled:
        """The value itself, or one made of its rows alone."""
        if value is None or isinstance(value, Tensor):
            return Labelled(value)
        if not isinstance(value, Labelled):
            kind = type(value).__name__
            raise TypeError(f"labelled must be rows (int64 ids or a bool mask) or a rade.Labelled, got {kind}")
        return value

    def chosen(self, count: int, device: torch.device) -> Tensor:
        """Row ids among ``count`` rows."""
        if self.rows is None:
            return torch.arange(count, device=device)
        rows = self.rows
        return _known.get((rows,), count, lambda: _checked(_ids(rows, count), count))

    def masked(self, weight: Tensor) -> Tensor:
        """Weights [|rows|, C] of the labelled rows, zero where a label is unknown, times this process's factor."""
        if self.known is None:
            return self.weight * weight
        try:
            return self.weight * (weight * self.known.to(weight.dtype).expand_as(weight))
        except RuntimeError:
            raise ValueError(
                f"known must be broadcastable to the logits' {list(weight.shape)}, got {list(self.known.shape)}; it "
                "tells which labels of the rows are known"
            ) from None


_known: Recall[Tensor] = Recall()


def _checked(chosen: Tensor, count: int) -> Tensor:
    if chosen.numel() == 0:
        raise ValueError("labelled must name at least one row: without labels there is nothing to balance")
    low, high = int(chosen.min()), int(chosen.max())
    if low < 0 or high >= count:
        raise ValueError(f"labelled rows must lie between 0 and {count - 1}, got {low if low < 0 else high}")
    return chosen.clone()  # what is recalled must not keep the memory that it is recalled by


def _ids(rows: Tensor, count: int) -> Tensor:
    if rows.dtype == torch.bool:
        if rows.shape != (count,):
            raise ValueError(f"a boolean mask needs an entry for each of the {count} rows, got {list(rows.shape)}")
        return rows.nonzero().squeeze(1)
    if rows.dtype != torch.long or rows.dim() != 1:
        raise ValueError(
            f"labelled rows must be a vector of int64 ids or a bool mask, got {rows.dtype} {list(rows.shape)}"
        )
    return rows
