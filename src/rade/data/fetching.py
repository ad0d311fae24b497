"""How raw files get into the data folder: from the web, or from an offline mirror."""

import os
import socket
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rade.data.catalogue import DataError, Entry, catalogue, resolve
from rade.data.files import (
    Altered,
    RawFile,
    data_root,
    missing_files,
    missing_sentence,
    place,
    raw_files,
    sha256_of,
    unreadable,
)

PATIENCE = 10.0  # seconds without an answer, or without a byte of a file
State = Literal["imported", "present", "missing", "refused", "generated"]


def fetch(entry: Entry, root: Path) -> None:
    """Download the required files of a data set that are missing below the data folder, and nothing else."""
    missing = missing_files(entry.name, root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _patience(), tempfile.TemporaryDirectory(dir=root, prefix=".download-") as folder:
            for file in missing:
                address, _, member = _address(entry, file).partition("#")
                if member:
                    _from_archive(entry, file, root, address, member, Path(folder) / "archive.zip")
                else:
                    (root / file.path).parent.mkdir(parents=True, exist_ok=True)
                    # The bytes of a public packing are not known; its content is checked when it is read.
                    _download(address, root / file.path, None if file.repacked else file.sha256)
    except Altered:
        raise
    except Exception as reason:  # whatever a network or a stranger's archive does: the user is told what is needed
        sentence = missing_sentence(entry, root, missing)
        raise DataError(f"{sentence} (the download failed: {reason})") from None


def _address(entry: Entry, file: RawFile) -> str:
    path = file.path.removeprefix(f"{entry.folder}/")
    return file.url or entry.url.format(folder=entry.folder, path=path, file=Path(path).name)


def _from_archive(entry: Entry, file: RawFile, root: Path, address: str, member: str, copy: Path) -> None:
    from rade.data.readers import REPACK

    if not copy.exists():
        _download(address, copy, None)  # its members are checked, each by itself
    with zipfile.ZipFile(copy) as archive:
        if entry.family not in REPACK:
            with archive.open(member) as stream:
                return place(stream, file, root, address)
        with tempfile.TemporaryFile(dir=copy.parent) as packed:
            REPACK[entry.family](archive, packed)
            packed.seek(0)
            place(packed, replace(file, sha256=None), root, address)


def _download(address: str, target: Path, sha256: str | None) -> None:
    import torch.hub

    torch.hub.download_url_to_file(address, str(target), hash_prefix=sha256, progress=False)


@contextmanager
def _patience() -> Iterator[None]:
    """torch.hub sets no time limit; without one a silent host is waited for without end."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@dataclass(frozen=True)
class Imported:
    """What happened to one file: copied, there already, absent from the mirror, or refused; or that none is needed."""

    dataset: str
    path: str
    state: State
    optional: bool
    reason: str = ""


def import_mirror(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, names: Sequence[str] = ()
) -> list[Imported]:
    """Copy the raw files of some (default: all) data sets from a mirror into the data folder.

    A file is renamed into its place only if its sha256 is the manifest's; so it is safe to run twice, and in several
    processes at once. A file without a known checksum is copied as it is.
    """
    mirror, home = Path(folder).expanduser(), data_root(root)
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")
    wanted = [resolve(name) for name in names] or [entry for entry in catalogue().values() if not entry.embedded]
    generated = [Imported(e.name, "", "generated", True, "generated, needs no file") for e in wanted if e.embedded]
    copied = [_import(entry.name, file, mirror, home) for entry in wanted for file in raw_files(entry.name)]
    if copied and all(result.state == "missing" for result in copied):
        titles = ", ".join(entry.title for entry in wanted)
        raise DataError(f"the mirror '{mirror}' has no file of {titles}; expected for example {copied[0].path}")
    return generated + copied


def _import(name: str, file: RawFile, mirror: Path, root: Path) -> Imported:
    source, target = mirror / file.path, root / file.path
    if os.access(target, os.R_OK) and target.is_file() and file.sha256 in (None, sha256_of(target)):
        return Imported(name, file.path, "present", file.optional)
    if not source.is_file():
        return Imported(name, file.path, "missing", file.optional, f"{file.path} is not in the mirror '{mirror}'")
    try:
        stream = source.open("rb")
    except OSError as error:
        raise unreadable(source, error) from None
    try:
        with stream:
            place(stream, file, root, mirror)
    except Altered as reason:
        return Imported(name, file.path, "refused", file.optional, str(reason))
    return Imported(name, file.path, "imported", file.optional)
