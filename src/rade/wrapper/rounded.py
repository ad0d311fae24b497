"""How reports print: numbers that a person reads, to four digits; the fields themselves keep all of theirs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Rounded:
    """A base of dataclasses (with ``repr=False``) that shows floats to four digits."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={_short(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_short(one) for one in value)})"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
