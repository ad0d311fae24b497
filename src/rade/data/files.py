"""Raw files on disk: which there are (``manifest.json``), where they live, and that they are the right ones."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rade.data.catalogue import DataError, Entry

VARIABLE = "RADE_DATA"
PIECE = 1 << 20  # bytes read at a time: a 357 MB file must not sit in memory to be hashed


@dataclass(frozen=True)
class RawFile:
    """A raw file: its place below the data folder, and its checksum where one is known."""

    path: str
    sha256: str | None  # None: no trusted copy was ever available to take it from
    bytes: int | None
    repacked: bool = False  # the public download holds the same arrays in other bytes: their sizes are checked
    url: str = ""  # where the data set's does not say it

    def fits(self, place: Path) -> bool:
        """Whether there is a file, with the right content."""
        return place.is_file() and (self.repacked or self.sha256 in (None, sha256_of(place)))

    def require(self, content: Path, origin: object) -> str:
        """The sha256 of a copy of this file, which must be the manifest's; ``origin`` is named if it is not."""
        found = sha256_of(content)
        if self.repacked or self.sha256 in (None, found):
            return found
        size = content.stat().st_size
        kind = "truncated" if self.bytes is not None and size < self.bytes else "altered"
        raise DataError(
            f"{self.path} in '{origin}' is {kind}: expected {self.bytes} bytes with sha256 "
            f"{str(self.sha256)[:12]}…, got {size} bytes with {found[:12]}…; it was not used, delete it and import "
            "or download it again"
        )


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The data folder: the argument, else $RADE_DATA, else ``rade`` in the user's cache ($XDG_CACHE_HOME, ~/.cache).

    >>> data_root("elsewhere").name
    'elsewhere'
    """
    cached = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "rade"
    return Path(root or os.environ.get(VARIABLE) or cached).expanduser()


@cache
def raw_files(name: str) -> tuple[RawFile, ...]:
    """All raw files known for a data set; none for a synthetic one."""
    manifest: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("manifest.json").read_text("utf-8"))
    return tuple(RawFile(path, **fact) for path, fact in manifest.get(name, {}).items())


def missing_files(name: str, root: Path) -> tuple[RawFile, ...]:
    """The raw files that are absent below ``root``."""
    return tuple(file for file in raw_files(name) if not (root / file.path).is_file())


@dataclass(frozen=True)
class RawFolder:
    """The raw files of one data set below a data folder, handed out only after their checksum matched.

    ``seen`` collects the sha256 of everything that was read: the data set's provenance.
    """

    root: Path
    entry: Entry
    seen: dict[str, str] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Whether the data set has a file whose name ends so, for a reader."""
        return any(file.path.endswith(path) for file in raw_files(self.entry.name))

    def checked(self, path: str = "") -> Path:
        """The place of the file whose name ends so, which is the right one; by default of the only file."""
        file = next(file for file in raw_files(self.entry.name) if file.path.endswith(path))
        place = self.root / file.path
        self.seen[file.path] = file.require(place, self.root)
        return place


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def missing_sentence(entry: Entry, root: Path, files: Sequence[RawFile]) -> str:
    """What to say when raw files are absent."""
    paths = ", ".join(file.path for file in files)
    return (
        f"{entry.title} needs {paths} below the data folder '{root}', and it is not there; "
        f"put it there, or run `rade datasets import DIR` with a mirror that has it"
    )
