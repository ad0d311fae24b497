"""Downloads: the missing files of the manifest and nothing else, checked before they are put in place."""

import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import IO

from rade.data.catalogue import Entry, resolve
from rade.data.errors import DataError
from rade.data.files.manifest import RawFile, missing_files, required_files
from rade.data.files.placing import place
from rade.data.files.raw import missing_sentence
from rade.data.files.temporary import sweep, temporary
from rade.data.files.web import Source, open_url, source_of


def fetch(entry: Entry, root: Path) -> None:
    """Download the files of a data set, and of the one it is based on, that are missing below the data root."""
    if entry.base and missing_files(entry.base, root):
        fetch(resolve(entry.base), root)
    missing = missing_files(entry.name, root)
    files = [file for file in required_files(entry.name) if file.path in missing]
    for folder in {root, *((root / path).parent for path in missing)}:
        sweep(folder)
    source = source_of(entry)
    how = _converted if source.members else _from_archive if source.archive else _one_by_one
    try:
        how(entry, source, files, root)
    except DataError:
        raise
    except Exception as reason:  # whatever a network or a stranger's archive does: the user is told what is needed
        sentence = missing_sentence(entry, root, missing)
        raise DataError(f"{sentence} (the download failed: {reason})") from None


def _one_by_one(entry: Entry, source: Source, files: Sequence[RawFile], root: Path) -> None:
    for file in files:
        address = source.address(entry, file)
        with open_url(address) as stream:
            _put(stream, file, root, address)


def _from_archive(entry: Entry, source: Source, files: Sequence[RawFile], root: Path) -> None:
    address = source.archive.format(folder=entry.folder)
    with _archive(address, root) as archive:
        for file in files:
            with archive.open(source.member(entry, file)) as stream:
                _put(stream, file, root, address)


def _converted(entry: Entry, source: Source, files: Sequence[RawFile], root: Path) -> None:
    """Some members of an archive become the one file that the reader wants; they themselves are not kept."""
    with ExitStack() as stack:
        archive = stack.enter_context(_archive(source.archive, root))
        parts = {}
        for member in source.members:
            copy = stack.enter_context(temporary(root))
            with archive.open(member) as stream:
                shutil.copyfileobj(stream, copy)
            copy.flush()
            parts[Path(member).name] = Path(copy.name)
        packed = stack.enter_context(temporary(root))
        import_module(f"rade.data.readers.{entry.family}").repack(parts, packed)
        packed.seek(0)
        _put(packed, files[0], root, source.archive)


def _put(stream: IO[bytes], file: RawFile, root: Path, origin: str) -> None:
    # The bytes of a public packing are not known; its content is checked when it is read.
    expected = replace(file, sha256=None, bytes=None) if file.repacked else file
    reason = place(stream, expected, root, origin)
    if reason:
        raise DataError(reason)


@contextmanager
def _archive(address: str, root: Path) -> Iterator[zipfile.ZipFile]:
    with open_url(address) as stream, temporary(root) as copy:
        shutil.copyfileobj(stream, copy)
        copy.flush()
        with zipfile.ZipFile(copy) as archive:
            yield archive
