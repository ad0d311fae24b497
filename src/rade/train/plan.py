"""From what the user asked to the settings of every method: file, options and protocol put together."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rade.augment import ADAPTATION, METHODS
from rade.data.catalogue import resolve as resolve_dataset
from rade.nn.backbones import BACKBONES
from rade.train.errors import SettingsError, unknown
from rade.train.protocol import PROTOCOLS, defaults
from rade.train.settings import Settings, offered_by, resolve

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMPARED = ("none", "dropout", "drop-edge", "rade-of", "rade-ofs")
RUNS = 10**6


@dataclass(frozen=True)
class Plan:
    """One data set, one backbone, the settings of each method, and how many runs of each; where defaults came from.

    first: the number of the first run.
    """

    settings: tuple[Settings, ...]
    runs: int
    protocol: str
    first: int = 0


def make_plan(asked: Mapping[str, Any]) -> Plan:
    """Settings for each method; an option goes to the methods that have it, and at least one must."""
    asked = dict(asked)
    for name in ("dataset", "backbone", "protocol"):
        if not isinstance(asked.get(name, ""), str):
            raise SettingsError(f"{name} must be one name, got {asked[name]!r}")
    dataset = resolve_dataset(asked.pop("dataset", "csbm")).name
    backbone = asked.pop("backbone", "gcn")
    methods = _names(asked.pop("method", COMPARED))
    source = asked.pop("protocol", PROTOCOLS[0])
    if backbone not in BACKBONES:
        raise unknown("backbone", backbone, BACKBONES)
    for method in methods:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
    first, runs = _which_runs(asked, defaults(dataset, backbone, methods[0], source)["runs"])
    check_options(asked, methods)
    settings = tuple(resolve(dataset, backbone, method, source, **meant_for(method, asked)) for method in methods)
    if "fanouts" in asked and (settings[0].batch_size == 0 or settings[0].pool != "none"):
        raise SettingsError(
            f"fanouts are for neighbor sampling on one graph, which {dataset} is not trained by here; "
            "give a batch size of seed nodes (--batch-size), or leave them out"
        )
    return Plan(settings, runs, source, first)


def _which_runs(asked: dict[str, Any], usual: int) -> tuple[int, int]:
    """The number of the first run and how many: `run` asks for a single one, `runs` for so many from 0 on."""
    if "run" in asked and "runs" in asked:
        raise SettingsError("run and runs contradict each other: one names a single run, the other counts several")
    runs = asked.pop("runs", 1 if "run" in asked else usual)
    first = asked.pop("run", 0)
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise SettingsError(f"runs must be a whole number of at least 1, got {runs!r}")
    if runs > RUNS:
        raise SettingsError(f"runs must be at most {RUNS}, got {runs}")
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first <= RUNS:
        raise SettingsError(f"run must be a whole number from 0 to {RUNS}, got {first!r}")
    return first, runs


def read_config(path: Path) -> dict[str, Any]:
    """The settings of a TOML file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers with thousands of digits
        raise SettingsError(f"{path} is not valid TOML: {error}") from None


def parse_assignment(text: str) -> dict[str, Any]:
    """`NAME=VALUE`, the value as in TOML or a bare word.

    >>> parse_assignment("share_view=false"), parse_assignment("moments=delta")
    ({'share_view': False}, {'moments': 'delta'})
    """
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise SettingsError(f"--set expects NAME=VALUE, got {text!r}")
    if value.strip().lower() in ("true", "false"):
        value = value.lower()  # Python's spelling
    try:
        return {name.strip().replace("-", "_"): tomllib.loads(f"value = {value}")["value"]}
    except (ValueError, RecursionError):
        return {name.strip().replace("-", "_"): value.strip()}


def _names(methods: Any) -> list[str]:
    """Names from a list whose elements may hold several, separated by commas; each once."""
    given = [methods] if isinstance(methods, str) else methods
    if not (isinstance(given, list | tuple) and all(isinstance(part, str) for part in given)):
        raise SettingsError(f"method must be a name or a list of names, got {methods!r}")
    names = list(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"method must name at least one method, got {methods!r}; known: {', '.join(METHODS)}")
    return names


def meant_for(method: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that every run has, and those of this method."""
    allowed = set(Settings.model_fields) | METHODS[method].known
    return {name: value for name, value in asked.items() if name in allowed}


def check_options(asked: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Refuse options that no chosen method has, that do not exist, or that contradict each other."""
    known = {name for method in methods for name in METHODS[method].known}
    everywhere = {name for entry in METHODS.values() for name in entry.known}
    fields = set(Settings.model_fields) - {"options", "protocol"}
    for name in asked:
        if name not in fields | everywhere:
            raise unknown("setting", name, sorted(fields | everywhere | {"run", "runs", "protocol"}))
        if name not in fields | known:
            owners = ", ".join(method for method, entry in METHODS.items() if name in entry.known)
            what = "fixed_rates" if name == "adaptive" else name
            raise SettingsError(f"{what} is no option of {', '.join(methods)}; it belongs to {owners}")
    for name in ADAPTATION:
        if asked.get("adaptive") is False and name in asked:
            raise SettingsError(f"fixed rates and {name} contradict each other: {name} only steers rates that adapt")
    if "views" in asked and not any("views" in offered_by(method, asked) for method in methods):
        raise SettingsError('views are those of an ensemble: say inference = "ensemble" as well, or leave them out')
    if "fanouts" in asked and asked.get("batch_size") == 0:
        raise SettingsError("fanouts and a batch size of 0 contradict each other: the whole graph needs no sampling")
