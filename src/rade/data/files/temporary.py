"""New files that are complete or absent: written beside their place, locked while their writer lives."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

# Windows has no such locks: there age decides what is abandoned.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None
PREFIX = ".import-"
ABANDONED = 3600.0  # seconds without a write, where no lock can tell


@contextmanager
def temporary(folder: Path) -> Iterator[IO[bytes]]:
    """A new file in a folder, to be renamed; what was not renamed is removed, whatever happened."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = _locked(folder)
    try:
        yield stream
    finally:
        try:
            stream.close()  # flushes, which a full disk may refuse once more
        finally:
            Path(stream.name).unlink(missing_ok=True)


def publish(stream: IO[bytes], target: Path) -> None:
    """Put a finished temporary file in its place, readable by all: a shared data root has other readers."""
    stream.flush()
    os.chmod(stream.name, 0o644)
    os.replace(stream.name, target)


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder; the files of living ones are locked and stay."""
    for path in folder.glob(f"{PREFIX}*"):
        try:
            with path.open("rb") as stream:
                if _abandoned(stream):
                    path.unlink()  # while the lock is held, see _locked
        except OSError:
            continue  # somebody else's file, or removed in between: tidying up is not the job


def _locked(folder: Path) -> IO[bytes]:
    while True:
        stream = tempfile.NamedTemporaryFile(dir=folder, prefix=PREFIX, delete=False)  # noqa: SIM115
        if fcntl is None:
            return stream
        with suppress(OSError):  # a file system without locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink > 0:  # else a sweep was quicker than the lock: once more
            return stream
        stream.close()


def _abandoned(stream: IO[bytes]) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        pass
    return time.time() - os.fstat(stream.fileno()).st_mtime > ABANDONED
