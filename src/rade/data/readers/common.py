"""What several readers share: text tables, pickle-free arrays, the tensors of a single graph."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rade.data.errors import DataError
from rade.data.files.raw import RawFolder


def read_table(raw: RawFolder, path: str, columns: int, dtype: type = np.int64) -> NDArray[Any]:
    """A comma-separated table of numbers [rows, columns]; ``.gz`` is unpacked."""
    content = raw.read(path)
    try:
        text = gzip.decompress(content) if path.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as reason:
        raise DataError(f"{raw.entry.folder}/{path} is not a readable gzip file ({reason}); fetch it again") from None
    rows = text.count(b"\n") + (not text.endswith(b"\n"))
    try:
        return np.fromstring(text.replace(b",", b" "), dtype=dtype, sep=" ").reshape(rows, columns)
    except ValueError as reason:
        expected = f"{rows} lines of {columns} numbers"
        raise DataError(f"{raw.entry.folder}/{path} should hold {expected} ({reason}); fetch it again") from None


def read_arrays(raw: RawFolder, path: str, keys: tuple[str, ...]) -> Mapping[str, NDArray[Any]]:
    """Arrays of an npz file, never unpickled; a flipped bit in any of them fails the archive's own checksum."""
    try:
        with np.load(io.BytesIO(raw.read(path)), allow_pickle=False) as archive:
            return {key: archive[key] for key in keys}
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, OSError) as reason:
        if isinstance(reason, DataError):
            raise
        place = f"{raw.entry.folder}/{path}"
        raise DataError(f"{place} is not readable as plain arrays ({reason}); fetch it again") from None
