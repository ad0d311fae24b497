"""The raw files of each data set with their checksums; the facts are in ``manifest.json``."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from rade.data.catalogue import catalogue

PIECE = 1 << 20  # bytes read at a time: a 357 MB file must not sit in memory to be hashed


@dataclass(frozen=True)
class RawFile:
    """A raw file: its place below the data root, its checksum where one is known, and what may be in it."""

    path: str
    sha256: str | None  # None: no trusted copy was ever available to take it from
    bytes: int | None
    optional: bool = False  # read by PyG's or OGB's own classes, not by our reader
    pickled: bool = False  # holds a pickle: never opened before the checksum matched
    repacked: bool = False  # the public download holds the same arrays in other bytes


@cache
def raw_files(name: str) -> tuple[RawFile, ...]:
    """All raw files known for a data set, those of its base among them; none for a synthetic one."""
    entry, manifest = catalogue()[name], _manifest()
    shared = [f"{entry.folder}/{path}" for path in entry.roles.values()]
    facts = manifest.get(name, {}) | {path: manifest[entry.folder][path] for path in shared}
    base = raw_files(entry.base) if entry.base else ()
    return base + tuple(RawFile(path, **fact) for path, fact in facts.items())


def required_files(name: str) -> tuple[RawFile, ...]:
    """The raw files without which the data set cannot be read."""
    return tuple(file for file in raw_files(name) if not file.optional)


def missing_files(name: str, root: Path) -> tuple[str, ...]:
    """The required raw files that are absent below ``root``."""
    return tuple(file.path for file in required_files(name) if not (root / file.path).is_file())


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return sha256_of_stream(stream)


def sha256_of_stream(stream: IO[bytes]) -> str:
    """The sha256 of the rest of a stream."""
    digest = hashlib.sha256()
    while piece := stream.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


@cache
def _manifest() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("manifest.json").read_text(encoding="utf-8")
    manifest: dict[str, dict[str, Any]] = json.loads(text)
    return manifest
