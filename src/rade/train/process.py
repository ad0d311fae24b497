"""One process, or one of several that share the batches: how work is split, gradients averaged, results collected."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rade.train.errors import SettingsError


class Solo:
    """A process that does everything itself."""

    rank = 0
    world = 1

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose backward pass leaves the gradient of the whole batch."""
        return model

    def part(self, items: Tensor) -> Tensor:
        """This process's part of the items."""
        return items

    def gather(self, part: Tensor) -> Tensor:
        """The parts of all processes, one after the other."""
        return part

    def collect(self, value: Any) -> list[Any]:
        """The value of every process, by rank."""
        return [value]

    def total(self, value: float) -> float:
        """Sum over processes."""
        return value


class Group(Solo):
    """One of `world` processes started by torchrun; every batch is split among them."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def wrap(self, model: nn.Module) -> nn.Module:
        """DDP: the backward pass averages the gradients."""
        return DistributedDataParallel(model)

    def part(self, items: Tensor) -> Tensor:
        """Every world-th item, starting at the own rank."""
        return items[self.rank :: self.world]

    def gather(self, part: Tensor) -> Tensor:
        """The parts of all processes, one after the other; they may differ in length."""
        return torch.cat(self.collect(part.cpu())).to(part.device)

    def collect(self, value: Any) -> list[Any]:
        """The value of every process, by rank."""
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def total(self, value: float) -> float:
        number = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(number)
        return float(number)


@contextmanager
def processes() -> Iterator[Solo]:
    """The process group that torchrun announces in the environment, or a single process."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield Solo()
        return
    try:
        dist.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise SettingsError(
            f"the environment announces WORLD_SIZE = {os.environ['WORLD_SIZE']} processes, but they cannot be joined "
            f"({reason}); start them with torchrun, or unset WORLD_SIZE"
        ) from None
    try:
        yield Group()
    finally:
        dist.destroy_process_group()
