"""Sums over views in full precision, whatever the caller's autocast says: corrections cancel, which bfloat16 cannot."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

SHORT = (torch.float16, torch.bfloat16)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Mixed precision off."""
    return torch.autocast(device.type, enabled=False)


def in_full_precision(forward: Callable[..., Any], x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``forward`` of a layer with features ``x`` among its arguments; under autocast it runs in float32."""
    if not isinstance(x, Tensor):
        return forward(*args, **kwargs)
    if torch.is_autocast_enabled(x.device.type):
        with without_autocast(x.device):
            return forward(*map(_whole, args), **{name: _whole(value) for name, value in kwargs.items()})
    if x.dtype in SHORT and x.device.type == "cpu":
        raise ValueError(
            f"views are summed in float32 or float64 on a CPU, got features in {str(x.dtype).removeprefix('torch.')}; "
            "keep the model in float32 and train under torch.autocast"
        )
    return forward(*args, **kwargs)


def _whole(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in SHORT else value
