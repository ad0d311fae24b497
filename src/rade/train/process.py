"""This process: alone or one of several that share the batches, and how it is asked to stop."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rade.errors import RadeError, SettingsError
from rade.train.files import sole_writer

# SIGHUP is unknown to Windows.
_SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]


# Whether `processes` has joined a group. A program that has a group of its own and trains with rade trains alone.
_joined = False


def world() -> int:
    """How many processes share every batch: those that torchrun started, or one."""
    return dist.get_world_size() if _joined else 1


def rank() -> int:
    """The number of this process among them."""
    return dist.get_rank() if _joined else 0


def collect(value: Any) -> list[Any]:
    """The value of every process, by rank."""
    values = [value] * world()
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def gather(found: Tensor) -> Tensor:
    """The parts of all processes, one after the other; they may differ in length."""
    return found if world() == 1 else torch.cat(collect(found.cpu())).to(found.device)


@contextmanager
def processes() -> Iterator[None]:
    """Join the process group that torchrun announces in the environment, if it does."""
    global _joined
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    try:
        dist.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise SettingsError(
            f"the environment announces WORLD_SIZE = {os.environ['WORLD_SIZE']} processes, but they cannot be joined "
            f"({reason}); start them with torchrun, or unset WORLD_SIZE"
        ) from None
    _joined = True
    try:
        yield
    finally:
        _joined = False
        dist.destroy_process_group()


@contextmanager
def holding(out: Path) -> Iterator[None]:
    """Be the only one to write to a folder, the first process for all; another one is refused."""
    with ExitStack() as stack:
        failure = None
        if rank() == 0:
            try:
                busy = f"{out} is in use by another process; wait for it, or choose another folder with --out"
                stack.enter_context(sole_writer(out / ".writer", busy))
            except RadeError as error:
                failure = error
        failure = collect(failure)[0]
        if failure is not None:
            raise failure
        yield


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
