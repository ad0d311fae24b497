"""What a model returns: its logits may be all of it, or the first part of several."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def logits_of(output: Any) -> Tensor:
    """The logits among what a forward pass returned: a tensor, or the first one of a tuple or list."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    raise ValueError(
        "expected logits, or a tuple whose first entry they are, from the model, got "
        f"{type(output).__name__}; to adapt "
        "rates, return them so, or keep the rates, rule=rade.Constant()"
    )


def has_logits(output: Any) -> bool:
    """Whether logits can be told."""
    return isinstance(output, Tensor) or (
        isinstance(output, tuple | list) and len(output) > 0 and isinstance(output[0], Tensor)
    )
