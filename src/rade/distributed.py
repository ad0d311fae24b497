"""What the library knows of a distributed run: the rank of this process, and means over all of them."""

from __future__ import annotations

import torch
from torch import Tensor


def running() -> bool:
    """Whether this process is part of a distributed run."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank() -> int:
    """The rank of this process in a distributed run, 0 without one."""
    return torch.distributed.get_rank() if running() else 0


def average(values: Tensor) -> Tensor:
    """The mean over the ranks of a distributed run; the values themselves otherwise."""
    if not running():
        return values
    total = values.clone()
    torch.distributed.all_reduce(total)
    return total / torch.distributed.get_world_size()
