"""What several readers share: text tables, pickle-free arrays, the edges of a sparse matrix, splits in JSON."""

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rade.data.edges import clean_edges
from rade.data.errors import DataError
from rade.data.files.raw import RawFolder


def read_table(raw: RawFolder, path: str, columns: int, dtype: type = np.int64) -> NDArray[Any]:
    """A comma-separated table of numbers [rows, columns]; ``.gz`` is unpacked."""
    return parse_table(raw.read(path), f"{raw.entry.folder}/{path}", columns, dtype)


def parse_table(content: bytes, name: str, columns: int, dtype: type = np.int64) -> NDArray[Any]:
    """The table in a file's content; ``name`` is the file's."""
    try:
        text = gzip.decompress(content) if name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as reason:
        raise DataError(f"{name} is not a readable gzip file ({reason}); fetch it again") from None
    rows = text.count(b"\n") + (not text.endswith(b"\n"))
    try:
        return np.fromstring(text.replace(b",", b" "), dtype=dtype, sep=" ").reshape(rows, columns)
    except ValueError as reason:
        raise DataError(f"{name} should hold {rows} lines of {columns} numbers ({reason}); fetch it again") from None


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


def read_adjacency(raw: RawFolder, path: str) -> Tensor:
    """The clean edges of a square sparse matrix in CSR form, as SciPy and GraphSAINT store it."""
    arrays = read_arrays(raw, path, ("indices", "indptr", "shape"))
    count = int(arrays["shape"][0])
    source = np.repeat(np.arange(count), np.diff(arrays["indptr"]))
    return clean_edges(source, arrays["indices"].astype(np.int64), count)


def read_lists(raw: RawFolder, path: str) -> Mapping[str, Tensor]:
    """Sorted lists of node numbers by name, from a JSON file."""
    try:
        return {name: torch.tensor(nodes).sort().values for name, nodes in json.loads(raw.read(path)).items()}
    except (ValueError, TypeError, AttributeError) as reason:
        if isinstance(reason, DataError):
            raise
        raise DataError(f"{raw.entry.folder}/{path} does not hold lists of nodes ({reason}); fetch it again") from None
