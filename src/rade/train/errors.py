"""What a user can get wrong in training, each told in one sentence."""

import difflib
from collections.abc import Iterable

from rade.errors import RadeError


class SettingsError(RadeError, ValueError):
    """A setting that is unknown, out of range, or contradicts another."""


class RunError(RadeError):
    """A run's files are missing, damaged, or belong to other settings."""


class Diverged(RunError):
    """Training ran into numbers that mean nothing."""

    code = 1


class Interrupted(RadeError):
    """Training stopped at the user's request, with its state saved."""


def unknown(what: str, given: str, known: Iterable[str]) -> SettingsError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown("backbone", "gnc", ["gcn", "gin"]))
    "unknown backbone 'gnc'; did you mean 'gcn'? Known: gcn, gin"
    """
    names = list(known)
    near = difflib.get_close_matches(given.lower(), names, n=3, cutoff=0.5)
    swapped = [name for name in near if sorted(name) == sorted(given.lower())]
    hint = f"; did you mean '{(swapped or near)[0]}'?" if near else "."
    return SettingsError(f"unknown {what} '{given}'{hint} Known: {', '.join(names)}")
