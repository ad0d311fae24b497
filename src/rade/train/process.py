"""This process: alone or one of several that share the batches, and how it is asked to stop."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rade.errors import SettingsError

# SIGHUP is unknown to Windows.
_SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]


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


class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether somebody asked."""
        return self.signal is not None

    @property
    def code(self) -> int:
        """The exit code that tells the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + (self.signal or signal.SIGINT)


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Turn the first signal into a request to stop after the epoch; a second Ctrl-C acts at once.

    A signal that was ignored stays ignored: `nohup` goes on working.
    """
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        request.signal = request.signal or number
        signal.signal(signal.SIGINT, signal.default_int_handler)

    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heeded}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
