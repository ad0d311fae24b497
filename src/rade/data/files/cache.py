"""Processed tensors on disk: named by their checksum, safe to read, rebuilt when damaged or when a raw file changes."""

from pathlib import Path
from typing import Any

import torch

from rade.data.content import is_known
from rade.data.files.manifest import sha256_of, sha256_of_stream
from rade.data.files.raw import RawFolder
from rade.data.files.temporary import publish, sweep, temporary
from rade.data.tables import Tables

VERSION = 2  # raise it when a reader's result changes


def read_cache(raw: RawFolder) -> Tables | None:
    """The processed tensors, or None if they are absent, damaged, not the data set's, or older than the raw files."""
    for path in _stored(raw):
        try:
            # Before anything is parsed: a flipped bit may crash the parser, or pass for data.
            if sha256_of(path) != _checksum(path):
                continue
            # Memory-mapped: only what a task touches is read. The file is replaced, never changed in place.
            state: dict[str, Any] = torch.load(path, weights_only=True, mmap=True)
            fingerprint, files = state.pop("fingerprint"), state.pop("files")
            tables = Tables.from_state(state)
            if fingerprint == raw.fingerprint() and (not raw.verify or is_known(raw.entry, tables)):
                raw.seen.update(files)
                return tables
        except Exception:  # a cache that cannot be used, for whatever reason, is built again
            continue
    return None


def write_cache(raw: RawFolder, tables: Tables) -> None:
    """Store the processed tensors; a data root that has no room or no permission is used without a cache."""
    folder = _folder(raw)
    try:
        sweep(folder)
        with temporary(folder) as stream:
            torch.save(tables.state() | {"fingerprint": raw.fingerprint(), "files": dict(raw.seen)}, stream)
            stream.seek(0)
            target = folder / f"{_prefix(raw)}{sha256_of_stream(stream)}.pt"
            publish(stream, target)
        for path in _stored(raw):
            if path != target:
                path.unlink(missing_ok=True)
    except (OSError, RuntimeError):  # torch turns some of the system's errors into its own
        return


def _stored(raw: RawFolder) -> list[Path]:
    return sorted(_folder(raw).glob(f"{_prefix(raw)}*.pt"))


def _folder(raw: RawFolder) -> Path:
    """Beside raw/, apart from PyG's processed/."""
    return raw.root / raw.entry.folder / "rade"


def _prefix(raw: RawFolder) -> str:
    return f"{raw.entry.name}.v{VERSION}."


def _checksum(path: Path) -> str:
    return path.stem.rpartition(".")[2]
