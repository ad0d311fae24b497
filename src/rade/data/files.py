"""Raw files on disk: which there are (``manifest.json``), where they live, and that they are the right ones."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from rade.data.catalogue import DataError, Entry

VARIABLE = "RADE_DATA"
PIECE = 1 << 20  # bytes read at a time: a 357 MB file must not sit in memory to be hashed


class Altered(DataError):
    """A raw file whose bytes are not the manifest's."""


@dataclass(frozen=True)
class RawFile:
    """A raw file: its place below the data folder, its checksum where one is known, and what may be in it."""

    path: str
    sha256: str | None  # None: no trusted copy was ever available to take it from
    bytes: int | None
    optional: bool = False  # read by PyG's or OGB's own classes, not by our reader
    pickled: bool = False  # holds a pickle: never without a checksum
    repacked: bool = False  # the public download holds the same arrays in other bytes
    url: str = ""  # where the data set's does not say it


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
    return tuple(RawFile(path, **fact) for path, fact in _manifest().get(name, {}).items())


def required_files(name: str) -> tuple[RawFile, ...]:
    """The raw files without which the data set cannot be read."""
    return tuple(file for file in raw_files(name) if not file.optional)


def missing_files(name: str, root: Path) -> tuple[RawFile, ...]:
    """The required raw files that are absent below ``root``."""
    return tuple(file for file in required_files(name) if not (root / file.path).is_file())


@dataclass(frozen=True)
class RawFolder:
    """The raw files of one data set below a data folder, handed out only after their checksum matched.

    ``seen`` collects the sha256 of everything that was read: the data set's provenance.
    """

    root: Path
    entry: Entry
    seen: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        """The content of a file; what was checked is what is returned, not a second look at the disk."""
        file = self._file(path)
        try:
            content = (self.root / file.path).read_bytes()
        except OSError as error:
            raise self._unreadable(file, error) from None
        self._accept(file, hashlib.sha256(content).hexdigest(), len(content))
        return content

    def checked(self, path: str) -> Path:
        """The place of a checked file that is too large to be read at once; never for pickles."""
        file = self._file(path)
        assert not file.pickled
        place = self.root / file.path
        try:
            self._accept(file, sha256_of(place), place.stat().st_size)
        except OSError as error:
            raise self._unreadable(file, error) from None
        return place

    def _file(self, path: str) -> RawFile:
        return next(file for file in raw_files(self.entry.name) if file.path == f"{self.entry.folder}/{path}")

    def _accept(self, file: RawFile, sha256: str, size: int) -> None:
        self.seen[file.path] = sha256
        if file.sha256 not in (None, sha256) and not file.repacked:
            raise altered(file, sha256, size, self.root)

    def _unreadable(self, file: RawFile, error: OSError) -> DataError:
        if isinstance(error, FileNotFoundError):
            return DataError(missing_sentence(self.entry, self.root, [file]))
        return unreadable(self.root / file.path, error)


def place(stream: IO[bytes], file: RawFile, root: Path, origin: object) -> None:
    """Copy a stream to its place below the data folder: complete and checked, or not at all.

    ``origin`` is named if it is refused. A file without a known checksum is taken as it is.
    """
    target = root / file.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".import-", delete=False) as copy:
            try:
                shutil.copyfileobj(stream, copy, PIECE)
                copy.flush()
                sha256 = sha256_of(Path(copy.name))
                if file.sha256 not in (None, sha256):
                    raise altered(file, sha256, copy.tell(), origin)
                os.chmod(copy.name, 0o644)  # a shared data folder has other readers
                os.replace(copy.name, target)
            finally:
                Path(copy.name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot write to {target.parent}: {error.strerror or error}; "
            f"make room there, or choose another data folder with --data-root or ${VARIABLE}"
        ) from None


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


def unreadable(path: Path, error: OSError) -> DataError:
    """What to say when a file is there and cannot be read."""
    return DataError(f"cannot read {path}: {error.strerror or error}; make it readable, or use another folder")


def altered(file: RawFile, sha256: str, size: int, origin: object) -> Altered:
    """What to say when the bytes of a raw file are not the manifest's."""
    kind = "truncated" if file.bytes is not None and size < file.bytes else "altered"
    return Altered(
        f"{file.path} in '{origin}' is {kind}: expected {file.bytes} bytes with sha256 {str(file.sha256)[:12]}…, "
        f"got {size} bytes with {sha256[:12]}…; it was not used, delete it and import or download it again"
    )


@cache
def _manifest() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("manifest.json").read_text(encoding="utf-8")
    manifest: dict[str, dict[str, Any]] = json.loads(text)
    return manifest
