"""How raw files get into the data folder: from the web, or from an offline mirror."""

import os
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

from rade.data.catalogue import DataError, Entry, catalogue, resolve
from rade.data.files import PIECE, RawFile, data_root, missing_files, missing_sentence, raw_files, sha256_of

PATIENCE = 10.0  # seconds without an answer, or without a byte of a file


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
                    # The bytes of a public packing are not known; its sizes are checked when it is read.
                    _download(address, root / file.path, None if file.repacked else file.sha256)
    except DataError:
        raise
    except Exception as reason:  # whatever a network or a stranger's archive does: the user learns what is needed
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
                return _place(stream, file, root, address)
        with tempfile.TemporaryFile(dir=copy.parent) as packed:
            REPACK[entry.family](archive, packed)
            packed.seek(0)
            _place(packed, replace(file, sha256=None), root, address)


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
    """What happened to one file: copied, there already, absent from the mirror, or refused."""

    dataset: str
    path: str
    state: Literal["imported", "present", "missing", "refused"]
    reason: str = ""


def import_mirror(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, names: Sequence[str] = ()
) -> list[Imported]:
    """Copy the raw files of some (default: all) data sets from a mirror into the data folder.

    A file is renamed into its place only if its sha256 is the manifest's; so it is safe to run twice, and in several
    processes at once. A file without a known checksum is copied as it is. An optional file may be absent.
    """
    mirror, home = Path(folder).expanduser(), data_root(root)
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")
    wanted = [resolve(name) for name in names] or list(catalogue().values())
    files = [(entry.name, file) for entry in wanted for file in raw_files(entry.name)]
    found = [_import(name, file, mirror, home) for name, file in files]
    if found and all(result.state == "missing" for result in found):
        titles = ", ".join(entry.title for entry in wanted)
        raise DataError(f"the mirror '{mirror}' has no file of {titles}; expected for example {found[0].path}")
    return [result for result, (_, file) in zip(found, files) if not (file.optional and result.state == "missing")]


def _import(name: str, file: RawFile, mirror: Path, root: Path) -> Imported:
    source, target = mirror / file.path, root / file.path
    if target.is_file() and file.sha256 in (None, sha256_of(target)):
        return Imported(name, file.path, "present")
    if not source.is_file():
        return Imported(name, file.path, "missing", f"{file.path} is not in the mirror '{mirror}'")
    try:
        with source.open("rb") as stream:
            _place(stream, file, root, mirror)
    except DataError as reason:
        return Imported(name, file.path, "refused", str(reason))
    return Imported(name, file.path, "imported")


def _place(stream: IO[bytes], file: RawFile, root: Path, origin: object) -> None:
    """Copy a stream to its place below the data folder: complete and checked, or not at all."""
    target = root / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".import-", delete=False) as copy:
        try:
            shutil.copyfileobj(stream, copy, PIECE)
            copy.flush()
            file.require(Path(copy.name), origin)
            os.chmod(copy.name, 0o644)  # a shared data folder has other readers
            os.replace(copy.name, target)
        finally:
            Path(copy.name).unlink(missing_ok=True)
