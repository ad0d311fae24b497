"""What is known about every data set before any file is opened; the facts are in ``catalogue.toml``."""

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from rade.data.errors import DataError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Level = Literal["node", "graph"]
Metric = Literal["accuracy", "micro-f1", "roc-auc", "average-precision"]
Loss = Literal["multiclass", "binary", "multilabel"]
Encoder = Literal["none", "atom"]


@dataclass(frozen=True)
class Entry:
    """One data set: its task and sizes (``edges`` are undirected, after the clean-up), source and licence."""

    name: str
    title: str
    family: str  # which reader and which download; "synthetic" ones are generated
    folder: str  # below the data root, named as PyG and OGB name it
    aliases: tuple[str, ...]
    level: Level
    metric: Metric
    loss: Loss
    split: str
    graphs: int
    nodes: int
    edges: int
    features: int
    classes: int
    source: str
    licence: str
    encoder: Encoder = "none"
    group: str = ""  # of data sets that differ in one number, which ends their names
    base: str = ""  # the data set whose features and labels it shares
    roles: Mapping[str, str] = field(default_factory=dict, hash=False)  # files below the folder that are not its own

    @property
    def embedded(self) -> bool:
        """Generated on the spot: no files, no network."""
        return self.family == "synthetic"


@cache
def catalogue() -> Mapping[str, Entry]:
    """All data sets by canonical name, in the order of the paper's tables; the members of groups come last."""
    facts = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    groups = facts.pop("groups")
    entries = [Entry(name=name, **fields | {"aliases": tuple(fields["aliases"])}) for name, fields in facts.items()]
    for shared in groups.values():
        common = {name: value for name, value in shared.items() if not isinstance(value, dict)}
        for group, fields in shared.items():
            entries += _members(group, common | fields) if isinstance(fields, dict) else []
    return MappingProxyType({entry.name: entry for entry in entries})


def names(grouped: bool = False) -> tuple[str, ...]:
    """The canonical names of all data sets; those of groups, of which there are many, only if asked for.

    >>> names()[:3]
    ('cora', 'citeseer', 'pubmed')
    >>> "cora-meta-0.25" in names(grouped=True)
    True
    """
    return tuple(name for name, entry in catalogue().items() if grouped or not entry.group)


def members(name: str) -> tuple[Entry, ...]:
    """The entries of a group, or the one entry of a data set.

    >>> [entry.edges for entry in members("cora-nettack")]
    [5069, 5152, 5225, 5304, 5375, 5440]
    """
    return _groups().get(_plain(name)) or (resolve(name),)


def resolve(name: str) -> Entry:
    """The entry of a name; case, punctuation and the usual aliases do not matter.

    >>> resolve("IMDB_Binary").name
    'imdb-b'
    """
    spellings = _spellings()
    key = _plain(name)
    if key in spellings:
        return catalogue()[spellings[key]]
    if key in _groups():
        raise DataError(f"{name} is a group; name one of {', '.join(entry.name for entry in _groups()[key])}")
    close = difflib.get_close_matches(key, spellings, n=1, cutoff=0.6)
    hint = f"; did you mean '{spellings[close[0]]}'?" if close else "."
    groups = ", ".join(f"{group[0].name}…" for group in _groups().values())
    raise DataError(
        f"unknown data set '{name}'{hint} Known names: {', '.join(names())}, and of perturbed graphs {groups}"
    )


def _members(group: str, fields: dict[str, Any]) -> list[Entry]:
    """One entry per strength; nothing was perturbed at strength 0, so there is no perturbed graph to read."""
    entries = []
    for strength, edges in fields["edges"].items():
        roles = {role: path.format(strength=strength) for role, path in fields["roles"].items()}
        if strength == "0":
            del roles["graph"]
        own = {"title": f"{fields['title']} {strength}", "edges": edges, "roles": roles, "aliases": (), "group": group}
        entries.append(Entry(name=f"{group}-{strength}", **fields | own))
    return entries


@cache
def _groups() -> Mapping[str, tuple[Entry, ...]]:
    entries = [entry for entry in catalogue().values() if entry.group]
    return {_plain(group): tuple(e for e in entries if e.group == group) for group in {e.group: 0 for e in entries}}


@cache
def _spellings() -> Mapping[str, str]:
    return {_plain(spelling): e.name for e in catalogue().values() for spelling in (e.name, e.title, *e.aliases)}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
