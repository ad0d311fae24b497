"""The root of every error that is meant for the user, and the checks that many values share."""

from __future__ import annotations


class RadeError(Exception):
    """One clear sentence for the user: what was expected, what came, and the way out."""


def choose(what: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not one of ``allowed``.

    >>> choose("sampling", "poisson", ("bernoulli", "fixed"))
    Traceback (most recent call last):
    ValueError: sampling must be one of 'bernoulli', 'fixed', got 'poisson'
    """
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
