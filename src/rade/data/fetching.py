"""How raw files get into the data folder, from the web or from an offline mirror: copied, checked, put in place."""

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO
from urllib.request import Request, urlopen

from rade.data.catalogue import DataError, Entry, catalogue, resolve
from rade.data.files import PIECE, RawFile, data_root, missing_files, missing_sentence, raw_files

PATIENCE = 10.0  # seconds without an answer, or without a byte of a file


@dataclass(frozen=True)
class Arrived:
    """The files of a data set: those that came now, those that were there, those that the mirror lacks."""

    dataset: str
    new: Sequence[str]
    present: Sequence[str]
    missing: Sequence[str]


def fetch(entry: Entry, root: Path) -> Arrived:
    """Download what is missing or altered of a data set, and nothing else."""
    needed = missing_files(entry.name, root) or raw_files(entry.name)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as folder:
            return _bring(entry, raw_files(entry.name), root, _from_web(entry, Path(folder)), "the download")
    except DataError:
        raise
    except Exception as reason:  # whatever a network or a stranger's archive does: the user learns what is needed
        sentence = missing_sentence(entry, root, needed)
        raise DataError(f"{sentence} (the download failed: {reason})") from None


def import_mirror(
    folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, names: Sequence[str] = ()
) -> list[Arrived]:
    """Copy the raw files of some (default: all) data sets from a mirror, a folder like the data folder.

    It is safe to run twice, and in several processes at once.
    """
    mirror, home = Path(folder).expanduser(), data_root(root)
    if not mirror.is_dir():
        raise DataError(f"the mirror '{mirror}' is not a folder; give the folder that holds Cora/, MUTAG/, …")

    def opened(file: RawFile) -> IO[bytes] | None:
        return (mirror / file.path).open("rb") if (mirror / file.path).is_file() else None

    found = []
    for entry in [resolve(name) for name in names] or catalogue().values():
        files = [replace(file, repacked=False) for file in raw_files(entry.name)]  # mirrors hold the manifest's bytes
        found.append(_bring(entry, files, home, opened, mirror))
    missing = [path for one in found for path in one.missing]
    if missing and not any(one.new or one.present for one in found):
        wanted = ", ".join(resolve(one.dataset).title for one in found)
        raise DataError(f"the mirror '{mirror}' has no file of {wanted}; expected for example {missing[0]}")
    return found


Opened = Callable[[RawFile], IO[bytes] | None]


def _bring(entry: Entry, files: Sequence[RawFile], root: Path, opened: Opened, origin: object) -> Arrived:
    """Put those files into the data folder that are not there as they should be."""
    came: dict[str, list[str]] = {"new": [], "present": [], "missing": []}
    for file in files:
        state = "present"
        if not file.fits(root / file.path):
            stream = opened(file)
            state = "new" if stream else "missing"
            if stream:
                with stream:
                    _place(stream, file, root / file.path, origin)
        came[state].append(file.path)
    return Arrived(entry.name, **came)


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


def _from_web(entry: Entry, folder: Path) -> Opened:
    """Each file from its address; an archive is downloaded once."""

    @cache
    def archive(address: str) -> zipfile.ZipFile:
        path = folder / "archive.zip"
        with _download(address) as stream, path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, PIECE)
        return zipfile.ZipFile(path)

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
