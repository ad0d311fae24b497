"""The protocol's settings, read from the packaged files without the trainer, and how a run departs from them."""

from collections.abc import Collection, Mapping
from typing import Any

from rade.train.protocol import defaults
from rade.train.record import NEUTRAL

# The number of runs is no setting of a run; fan-outs depend on depth and mean nothing without batches.
_UNCOMPARED = NEUTRAL | {"runs", "fanouts"}


def departures(settings: Mapping[str, Any], protocol: str, allowed: Collection[str] = ()) -> dict[str, str]:
    """Settings that differ from the protocol's, by name in words, apart from those that are `allowed` to."""
    expected = defaults(settings["dataset"], settings["backbone"], settings["method"], protocol)
    return {
        name: f"{name} {settings[name]} instead of {value}"
        for name, value in sorted(expected.items())
        if name not in _UNCOMPARED and name not in allowed and name in settings and settings[name] != value
    }
