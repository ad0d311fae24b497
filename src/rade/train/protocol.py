"""The protocol: which settings a data set, a backbone and a method are trained with. Without torch.

This is the one place that reads `defaults.toml` and `released.toml`: `rade.train.settings` resolves a run's settings
from it, and the report tells from it how a run departs from the protocol.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from rade.errors import SettingsError, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The authors' published code, with which the paper's numbers were made, comes first: it is the default. The paper's
# text differs from it in the learning rate on TU sets, the projection, the views per layer and more.
PROTOCOLS = ("released", "paper")
# Backbones without published sizes, and the one whose sizes they share.
LIKE = {"sgc": "gcn", "gin-lin": "gin", "sage": "gcn"}


@cache
def protocol(name: str = PROTOCOLS[0]) -> Mapping[str, Mapping[str, Any]]:
    """The packaged defaults, one section per data set: what the authors' code does, or what the paper's text says."""
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    paper = _packaged("defaults.toml")
    changes = _packaged("released.toml") if name == "released" else {}
    return {section: values | changes.get(section, {}) for section, values in paper.items()}


def defaults(dataset: str, backbone: str, method: str, source: str = PROTOCOLS[0]) -> dict[str, Any]:
    """Flat protocol values for one data set, backbone and method, `runs` and the method's options among them.

    >>> defaults("cora", "sage", "drop-edge")["hidden"]
    512
    """
    like = LIKE.get(backbone, backbone)
    chosen = {"hidden": like, "batch_size": like, "rate": method}
    values: dict[str, Any] = {}
    for name, value in _section(dataset, protocol(source)).items():
        if not isinstance(value, Mapping):
            values[name] = value
        elif chosen[name] in value:
            values[name] = value[chosen[name]]
    return values


def _section(name: str, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A section on top of the one it is like; a data set without a section follows the node protocol."""
    section = dict(sections.get(name, {"like": "node"}))
    base = section.pop("like", None)
    return section if base is None else _section(base, sections) | section


def _packaged(file: str) -> dict[str, dict[str, Any]]:
    return toml(resources.files("rade.train").joinpath(file).read_text("utf-8"))


def toml(text: str) -> dict[str, Any]:
    """What a TOML text says."""
    return tomllib.loads(text)


def read_toml(path: Path) -> dict[str, Any]:
    """What a user's TOML file says."""
    try:
        return toml(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with thousands of digits
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
