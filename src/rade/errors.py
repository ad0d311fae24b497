"""Every error that is meant for the user, each one sentence, and the checks that many values share."""

from __future__ import annotations

import difflib
import errno
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

# What the machine refuses, not what the user wrote; a system may lack some of them.
_MACHINE = (
    "ENOSPC", "EDQUOT", "EFBIG", "EACCES", "EPERM", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT"
)  # fmt: skip


class RadeError(Exception):
    """One clear sentence for the user: what was expected, what came, and what to do; ``code`` is the exit code."""

    code = 2


class EnvironmentFault(RadeError):
    """The machine refuses: disk, memory, permissions."""

    code = 3


class SettingsError(RadeError, ValueError):
    """A setting that is unknown, out of range, or contradicts another."""


class RunError(RadeError):
    """A run's files are missing, damaged, or belong to other settings."""


class Diverged(RunError):
    """Training ran into numbers that mean nothing."""

    code = 1


class Interrupted(RadeError):
    """Training stopped at the user's request, with its state saved."""


def is_machine(error: OSError, writing: bool = False) -> bool:
    """Whether the machine refused, rather than a path being wrong.

    writing: folders are made on the way, so one that is not found after that cannot be made, as in /proc.

    >>> is_machine(OSError(errno.ENOSPC, "No space left on device")), is_machine(FileNotFoundError(errno.ENOENT, ""))
    (True, False)
    """
    return errno.errorcode.get(error.errno or 0) in _MACHINE or (writing and error.errno == errno.ENOENT)


def choose(what: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a word that is not one of ``allowed``.

    >>> choose("sampling", "poisson", ("bernoulli", "fixed"))
    Traceback (most recent call last):
    ValueError: sampling must be one of 'bernoulli', 'fixed', got 'poisson'
    """
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def unknown(what: str, given: str, known: Iterable[str], kind: type[RadeError] = SettingsError) -> RadeError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown("backbone", "gnc", ["gcn", "gin"]))
    "unknown backbone 'gnc'; did you mean 'gcn'? Known: gcn, gin"
    """
    names = list(known)
    near = difflib.get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    swapped = [name for name in near if sorted(name) == sorted(given.lower())]
    meant = f"; did you mean '{(swapped or near)[0]}'?" if near else "."
    return kind(f"unknown {what} '{given}'{meant} Known: {', '.join(names)}")


def complaint(error: ValidationError) -> str:
    """The first thing that pydantic finds wrong, with its place (members of a list count from 0) and what came."""
    first = error.errors(include_url=False)[0]
    place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    came = "" if first["type"] in ("value_error", "missing", "json_invalid") else f", got {first['input']!r:.80}"
    return f"{place}: {reason}{came}" if place else reason


def outside() -> int:
    """The stack level, for a warning, of the first caller who is neither in this package nor in torch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("rade", "torch"):
        frame, level = frame.f_back, level + 1
    return level
