"""The protocol's settings, read from the packaged files without the trainer, and how a run departs from them."""

import sys
from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from rade.train.record import NEUTRAL

# The number of runs is no setting of a run; fan-outs depend on depth and mean nothing without batches.
_UNCOMPARED = NEUTRAL | {"runs", "fanouts"}


def departures(settings: Mapping[str, Any], protocol: str, allowed: Collection[str] = ()) -> dict[str, str]:
    """Settings that differ from the protocol's, by name in words, apart from those that are `allowed` to."""
    return {
        name: f"{name} {settings[name]} instead of {value}"
        for name, value in sorted(_defaults(settings, protocol).items())
        if name not in _UNCOMPARED and name not in allowed and name in settings and settings[name] != value
    }


def _defaults(settings: Mapping[str, Any], protocol: str) -> dict[str, Any]:
    """Values by data set, backbone and method; one that the files give for other backbones only is left out."""
    chosen = {"hidden": settings["backbone"], "batch_size": settings["backbone"], "rate": settings["method"]}
    values: dict[str, Any] = {}
    for name, value in _section(str(settings["dataset"]), _sections(protocol)).items():
        if not isinstance(value, Mapping):
            values[name] = value
        elif chosen.get(name) in value:
            values[name] = value[chosen[name]]
    return values


def _section(name: str, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    section = dict(sections.get(name, {"like": "node"}))
    base = section.pop("like", None)
    return section if base is None else {**_section(base, sections), **section}


@cache
def _sections(protocol: str) -> dict[str, dict[str, Any]]:
    paper = _packaged("defaults.toml")
    changes = _packaged("released.toml") if protocol == "released" else {}
    return {section: {**values, **changes.get(section, {})} for section, values in paper.items()}


def _packaged(file: str) -> dict[str, dict[str, Any]]:
    # By way of `rade`, not `rade.train`: the latter would import torch.
    return tomllib.loads(resources.files("rade").joinpath("train", file).read_text("utf-8"))
