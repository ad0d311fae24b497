"""Checksums in JSON records: what was written is what is read, or it is noticed. Standard library only."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rade.errors import RadeError

FIELD = "checksum"


class SealError(RadeError, ValueError):
    """A record without a checksum, or with one that does not fit."""


def canonical(record: Mapping[str, Any]) -> str:
    """The one JSON text of a record: sorted keys, no spaces, ASCII, finite numbers only."""
    return json.dumps(dict(record), sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(record: Mapping[str, Any]) -> str:
    """The sha256 of the canonical JSON of everything but the field "checksum".

    >>> checksum({"b": 1, "a": 2}) == checksum({"a": 2, "b": 1, "checksum": "any"})
    True
    """
    rest = {name: value for name, value in record.items() if name != FIELD}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its checksum in the field "checksum"."""
    return {**record, FIELD: checksum(record)}


def verify(record: Any) -> None:
    """Refuse what `sealed` did not return: another value, no checksum, a wrong one.

    >>> verify(sealed({"test": 0.5}))
    """
    if not isinstance(record, dict):
        raise SealError(f"a record must be a JSON object, got {type(record).__name__}")
    if FIELD not in record:
        raise SealError("it has no checksum: it was edited by hand or written by an older version")
    try:
        found = checksum(record)
    except (TypeError, ValueError, RecursionError):
        raise SealError("it holds what no record of rade holds, such as NaN") from None
    if found != record[FIELD]:
        raise SealError("its content does not fit its checksum: it was edited by hand or damaged")
