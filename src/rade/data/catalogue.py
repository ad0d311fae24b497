"""What is known about every data set before any file is opened; the facts are in ``catalogue.toml``."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from rade.errors import RadeError, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Level = Literal["node", "graph"]
Metric = Literal["accuracy", "micro-f1", "roc-auc", "average-precision"]
Loss = Literal["multiclass", "binary", "multilabel"]
Encoder = Literal["none", "atom"]


class DataError(RadeError, ValueError):
    """A data set, a raw file or a split that cannot be used, said in one sentence."""


@dataclass(frozen=True)
class Entry:
    """One data set: its task and sizes (``edges`` are undirected, after the clean-up), source and licence."""

    name: str
    title: str
    family: str  # which reader and which download; "synthetic" ones are generated
    folder: str  # below the data folder, named as PyG and OGB name it
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
    url: str = ""  # of each file, or of an archive and, after #, the member in it
    encoder: Encoder = "none"

    @property
    def embedded(self) -> bool:
        """Generated on the spot: no files, no network."""
        return self.family == "synthetic"


@cache
def catalogue() -> Mapping[str, Entry]:
    """All data sets by canonical name, in the order of the paper's tables."""
    facts = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    return {name: Entry(name=name, **row | {"aliases": tuple(row["aliases"])}) for name, row in facts.items()}


def names() -> tuple[str, ...]:
    """The canonical names of all data sets.

    >>> names()[:3]
    ('cora', 'citeseer', 'pubmed')
    """
    return tuple(catalogue())


def resolve(name: str) -> Entry:
    """The entry of a name; case, punctuation and the usual aliases do not matter.

    >>> resolve("IMDB_Binary").name
    'imdb-b'
    """
    spellings, key = _spellings(), _plain(name)
    if key in spellings:
        return catalogue()[spellings[key]]
    raise unknown("data set", name, names(), DataError)


@cache
def _spellings() -> Mapping[str, str]:
    return {_plain(spelling): e.name for e in catalogue().values() for spelling in (e.name, e.title, *e.aliases)}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
