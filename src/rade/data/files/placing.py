"""A raw file is put in its place only after its bytes were found to be the manifest's."""

import hashlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO
from zipfile import BadZipFile
from zlib import error as BadDeflate

from rade.data.errors import DataError
from rade.data.files.manifest import PIECE, RawFile
from rade.data.files.raw import altered_sentence
from rade.data.files.temporary import publish, temporary


def place(stream: IO[bytes], file: RawFile, root: Path, origin: object) -> str:
    """Copy a stream to its place below the data root, checked on the way; the reason if it was refused.

    ``origin`` is named in that reason. A file without a known checksum is taken as it is.
    """
    target = root / file.path
    try:
        with temporary(target.parent) as copy:
            digest, size = hashlib.sha256(), 0
            for piece in _pieces(stream, file, origin):
                digest.update(piece)
                size += copy.write(piece)
            if file.sha256 not in (None, digest.hexdigest()):
                return altered_sentence(file, digest.hexdigest(), size, origin)
            publish(copy, target)
            return ""
    except OSError as error:
        raise cannot_write(target.parent, error) from None


def cannot_write(folder: Path, error: OSError) -> DataError:
    """What to say when a folder takes no file: no permission, no room, a file in its way."""
    return DataError(
        f"cannot write to {folder}: {error.strerror or error}; "
        f"make room there, or choose another data folder with --data-root or $RADE_DATA"
    )


def _pieces(stream: IO[bytes], file: RawFile, origin: object) -> Iterator[bytes]:
    """The content; one byte too many is enough to refuse it, for an archive member may unpack to terabytes."""
    left = float("inf") if file.bytes is None else file.bytes + 1
    try:
        while left > 0 and (piece := stream.read(int(min(PIECE, left)))):
            left -= len(piece)
            yield piece
    except (OSError, HTTPException, BadZipFile, BadDeflate, EOFError) as error:
        raise DataError(f"{file.path} cannot be read from '{origin}': {error}; try again, or fetch it anew") from None
