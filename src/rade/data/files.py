"""Raw files: which there are (``manifest.json``), where they live, that they are the right ones, and how they come.

From the web or from an offline mirror they are copied, checked and then put in place.
"""

import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

from rade.data.catalogue import DataError, Entry, catalogue, resolve

VARIABLE = "RADE_DATA"
PATIENCE = 10.0  # seconds without an answer, or without a byte of a file
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


def missing_sentence(entry: Entry, root: Path) -> str:
    """What to say when raw files are absent, or not as they should be."""
    paths = ", ".join(file.path for file in missing_files(entry.name, root) or raw_files(entry.name))
    return (
        f"{entry.title} needs {paths} below the data folder '{root}', and it is not there; "
        f"put it there, or run `rade datasets import DIR` with a mirror that has it"
    )


Opened = Callable[[RawFile], IO[bytes] | None]
States = Mapping[str, str]  # by path: "new" where a file came now, "present" where it was there, "missing"


def fetch(entry: Entry, root: Path) -> States:
    """Download what is missing or altered of a data set, and nothing else."""
    try:
        return _bring(entry, root, _from_web(entry), "the download")
    except DataError:
        raise
    except Exception as reason:  # whatever a network or a stranger's archive does: the user learns what is needed
        raise DataError(f"{missing_sentence(entry, root)} (the download failed: {reason})") from None


def import_mirror(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, names: Iterable[str] = ()
) -> dict[str, States]:
    """Copy the raw files of some (default: all) data sets from a mirror, a folder like the data folder.

    It is safe to run twice, and in several processes at once.
    """
    mirror = Path(folder).expanduser()
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")

    def opened(file: RawFile) -> IO[bytes] | None:
        return (mirror / file.path).open("rb") if (mirror / file.path).is_file() else None

    entries = [resolve(name) for name in names] or catalogue().values()
    found = {entry.name: _bring(entry, data_root(root), opened, mirror) for entry in entries}
    states = {path: state for one in found.values() for path, state in one.items()}
    if states and set(states.values()) == {"missing"}:
        wanted = ", ".join(resolve(name).title for name in found)
        raise DataError(f"the mirror '{mirror}' has no file of {wanted}; expected for example {next(iter(states))}")
    return found


def _bring(entry: Entry, root: Path, opened: Opened, origin: object) -> States:
    """Put those files into the data folder that are not there as they should be."""
    states = {}
    for file in raw_files(entry.name):
        states[file.path] = "present"
        if not file.fits(root / file.path):
            stream = opened(file)
            states[file.path] = "new" if stream else "missing"
            if stream:
                with stream:
                    _place(stream, file, root / file.path, origin)
    return states


def _place(stream: IO[bytes], file: RawFile, target: Path, origin: object) -> None:
    """Copy a stream to its place: complete and checked, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".new-", delete=False) as copy:
        try:
            shutil.copyfileobj(stream, copy, PIECE)
            copy.flush()
            file.require(Path(copy.name), origin)
            os.chmod(copy.name, 0o644)  # a shared data folder has other readers
            os.replace(copy.name, target)
        finally:
            Path(copy.name).unlink(missing_ok=True)


def _from_web(entry: Entry) -> Opened:
    """Each file from its address; an archive is downloaded once."""

    @cache
    def archive(address: str) -> zipfile.ZipFile:
        with _download(address) as stream:
            return zipfile.ZipFile(io.BytesIO(stream.read()))

    def opened(file: RawFile) -> IO[bytes]:
        address, _, member = _address(entry, file).partition("#")
        if not member:
            return _download(address)
        if entry.family != "peptides":
            return archive(address).open(member)
        from rade.data.readers import repack_peptides

        packed = io.BytesIO()
        repack_peptides(archive(address), packed)
        packed.seek(0)
        return packed

    return opened


def _address(entry: Entry, file: RawFile) -> str:
    path = file.path.removeprefix(f"{entry.folder}/")
    return file.url or entry.url.format(folder=entry.folder, path=path, file=Path(path).name)


def _download(address: str) -> IO[bytes]:
    stream: IO[bytes] = urlopen(Request(address, headers={"User-Agent": "rade"}), timeout=PATIENCE)
    return stream
