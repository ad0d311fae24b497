"""The roots of every error that is meant for the user, and the checks that many values share."""

from __future__ import annotations

import errno
import sys

# What the machine refuses, not what the user wrote; a system may lack some of them.
_MACHINE = (
    "ENOSPC", "EDQUOT", "EFBIG", "EACCES", "EPERM", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT"
)  # fmt: skip


class RadeError(Exception):
    """One clear sentence for the user: what was expected, what came, and the way out; ``code`` is the exit code."""

    code = 2


class EnvironmentFault(RadeError):
    """The machine refuses: disk, memory, permissions."""

    code = 3


def is_machine(error: OSError, writing: bool = False) -> bool:
    """Whether the machine refused, rather than a path being wrong.

    writing: folders are made on the way, so one that is not found after that cannot be made, as in /proc.

    >>> is_machine(OSError(errno.ENOSPC, "No space left on device")), is_machine(FileNotFoundError(errno.ENOENT, ""))
    (True, False)
    """
    return errno.errorcode.get(error.errno or 0) in _MACHINE or (writing and error.errno == errno.ENOENT)


def choose(what: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not one of ``allowed``.

    >>> choose("sampling", "poisson", ("bernoulli", "fixed"))
    Traceback (most recent call last):
    ValueError: sampling must be one of 'bernoulli', 'fixed', got 'poisson'
    """
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def outside() -> int:
    """The stack level, for a warning, of the first caller who is neither in this package nor in torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("rade", "torch"):
        frame, level = frame.f_back, level + 1
    return level
