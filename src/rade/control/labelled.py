"""Which rows of the logits the loss was taken over, and which of their labels are valid."""

from __future__ import annotations

import torch
from torch import Tensor


def labelled_rows(index: Tensor | None, rows: int, device: torch.device) -> Tensor:
    """Row ids, from ids or a bool mask; all ``rows`` by default."""
    if index is None:
        return torch.arange(rows, device=device)
    chosen = _ids(index, rows)
    if chosen.numel() == 0:
        raise ValueError("index must name at least one row: without labels there is nothing to balance")
    if int(chosen.min()) < 0 or int(chosen.max()) >= rows:
        wrong = int(chosen.min()) if int(chosen.min()) < 0 else int(chosen.max())
        raise ValueError(f"index must hold rows from 0 to {rows - 1}, got {wrong}")
    return chosen


def _ids(index: Tensor, rows: int) -> Tensor:
    if index.dtype == torch.bool:
        if index.shape != (rows,):
            raise ValueError(f"a boolean index needs an entry for each of the {rows} rows, got {list(index.shape)}")
        return index.nonzero().squeeze(1)
    if index.dtype != torch.long or index.dim() != 1:
        raise ValueError(
            f"index must be a vector of int64 row ids or a bool mask, got {index.dtype} {list(index.shape)}"
        )
    return index


def only_valid(weight: Tensor, mask: Tensor | None) -> Tensor:
    """Weights [|B|, C] of the labelled rows, zero where a label is missing."""
    if mask is None:
        return weight
    try:
        return weight * mask.to(weight.dtype).expand_as(weight)
    except RuntimeError:
        raise ValueError(
            f"mask must be broadcastable to the logits' {list(weight.shape)}, got {list(mask.shape)}; it tells the "
            "valid labels of the rows that index names"
        ) from None
