"""Standard output and error that cannot stop the work: what nobody reads is dropped."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

if sys.platform == "win32":  # a closed pipe has another number there
    _NOBODY_READS = {errno.EPIPE, errno.EINVAL}
else:
    # A reader that has left, a terminal that has hung up, a stream that was closed: nothing is missed.
    _NOBODY_READS = {errno.EPIPE, errno.EIO, errno.EBADF}


class Tolerant(io.RawIOBase):
    """A file descriptor whose failures are remembered instead of raised."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.failure: OSError | None = None

    def write(self, content: Buffer, /) -> int:
        """Write what is accepted; after a failure nothing is tried any more."""
        content = memoryview(content)
        while self.failure is None:
            try:
                return os.write(self.descriptor, content)
            except BlockingIOError:
                select.select([], [self.descriptor], [])
            except OSError as error:
                self.failure = error
        return len(content)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self.descriptor)


@dataclass(frozen=True)
class Streams:
    """The streams in use, by the descriptor they write to."""

    raw: tuple[Tolerant, ...]

    @property
    def lost(self) -> OSError | None:
        """Why standard output could not be written although somebody wanted it, such as a full disk."""
        return next(
            (
                raw.failure
                for raw in self.raw
                if raw.descriptor == 1 and raw.failure is not None and raw.failure.errno not in _NOBODY_READS
            ),
            None,
        )


@contextmanager
def tolerant_output() -> Iterator[Streams]:
    """Put tolerant streams in the place of the process's own; streams that somebody has replaced stay."""
    before = sys.stdout, sys.stderr
    raw: list[Tolerant] = []
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(sys.stdout, 1, "replace", raw)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(sys.stderr, 2, "backslashreplace", raw)
    try:
        yield Streams(tuple(raw))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _stream(stream: TextIO | None, descriptor: int, errors: str, raw: list[Tolerant]) -> TextIO:
    if stream is None:
        # The process was started with this stream closed: the next file opened would get its number.
        descriptor = _reserve(descriptor)
    raw.append(Tolerant(descriptor))
    encoding = stream.encoding if stream is not None else "utf-8"
    alive = os.isatty(descriptor) or descriptor == 2
    return io.TextIOWrapper(io.BufferedWriter(raw[-1]), encoding, errors, line_buffering=alive)


def _reserve(descriptor: int) -> int:
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.fstat(descriptor)
    except OSError:
        os.dup2(nothing, descriptor)
        os.close(nothing)
        return descriptor
    return nothing
