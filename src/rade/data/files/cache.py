"""Processed tensors on disk: safe to read, written atomically, rebuilt when a raw file changes."""

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

from rade.data.files.raw import RawFolder
from rade.data.tables import Tables

VERSION = 2  # raise it when a reader's result changes


def cache_path(raw: RawFolder) -> Path:
    """Where the processed form of a data set is kept; beside raw/, apart from PyG's processed/."""
    return raw.root / raw.entry.folder / "rade" / f"{raw.entry.name}.v{VERSION}.pt"


def read_cache(raw: RawFolder) -> Tables | None:
    """The processed tensors, or None if they are absent, unreadable or older than the raw files."""
    path = cache_path(raw)
    try:
        # Memory-mapped: only what a task touches is read. The file is replaced, never changed in place.
        state: dict[str, Any] = torch.load(path, weights_only=True, mmap=True)
        if state.pop("fingerprint") != raw.fingerprint():
            return None
        raw.seen.update(state.pop("files"))
        return Tables.from_state(state)
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError):
        return None


def write_cache(raw: RawFolder, tables: Tables) -> None:
    """Store the processed tensors; a data root that cannot be written to is used without a cache."""
    path = cache_path(raw)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".v", suffix=".tmp")
        os.close(handle)
    except OSError:
        return
    try:
        torch.save(tables.state() | {"fingerprint": raw.fingerprint(), "files": dict(raw.seen)}, temporary)
        os.chmod(temporary, 0o644)  # mkstemp makes it private; a shared data root is read by others
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
