"""Requests to stop that come from outside: Ctrl-C, a scheduler's SIGTERM, a terminal that hangs up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# SIGHUP is unknown to Windows.
_SIGNALS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]


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
