"""Files that are replaced whole or not at all."""

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from pydantic import ValidationError

from rade.errors import EnvironmentFault, RunError, complaint, is_machine
from rade.train.record import RunRecord

_DAMAGED = "is damaged or not a file of rade; delete it to start this run afresh"


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside `path`, force it to the disk, then rename: a reader finds the old file or the new one.

    A link stays and its target is replaced; a device or a pipe is written to as it is. What a killed process left
    half-written is overwritten by the next one.
    """
    try:
        if path.is_dir():
            raise RunError(f"{path} is a folder, and a file is to be written; add a file's name")
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                write(device)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        try:
            with part.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot_write(path.parent, error) from None


def save_tensors(path: Path, state: Any) -> None:
    """Write a nest of tensors and plain values."""
    import torch  # here, so that reports can use the other functions without it

    # In memory first: torch turns a full disk into errors of its own, and may end the process.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_whole(path, lambda file: file.write(buffer.getbuffer()))


def load_tensors(path: Path) -> Any:
    """Read what `save_tensors` wrote; nothing in the file is executed."""
    import torch

    content = io.BytesIO(_read(path))
    try:
        return torch.load(content, map_location="cpu", weights_only=True)
    except Exception:  # torch says many things of files that it did not write
        raise RunError(f"{path} {_DAMAGED}") from None


def save_json(path: Path, content: Any) -> None:
    """Write JSON, indented and with a final newline; numbers that JSON lacks are refused."""
    save_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file whole."""
    write_whole(path, lambda file: file.write(content))


def load_run_record(path: Path) -> RunRecord:
    """Read a `result.json`."""
    try:
        return RunRecord.model_validate_json(_read(path))
    except ValidationError as error:
        raise RunError(f"{path} is not a run of rade: {complaint(error)}; delete it to start this run afresh") from None


def ensure_writable(folder: Path) -> None:
    """Create a folder and try to write there, before hours of work depend on it."""
    write_whole(folder / ".writable", lambda file: None)
    (folder / ".writable").unlink(missing_ok=True)  # another process may have tried at the same time


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"there is no file {path}; is this the folder of a finished run?") from None


def _cannot_write(folder: Path, error: OSError) -> RunError | EnvironmentFault:
    """The sentence for a file system that refuses; what is wrong with the machine differs from a wrong path."""
    kind = EnvironmentFault if is_machine(error, writing=True) else RunError
    return kind(f"cannot write to {folder}: {error.strerror or error}; choose another folder")


@contextmanager
def sole_writer(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock that a file is, and delete it in the end; `busy` is the sentence for whoever comes second.

    The operating system lets go of it when a process ends, however it does.
    """
    lock = FileLock(path, timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise RunError(busy) from None
    except OSError as error:
        raise _cannot_write(path.parent, error) from None
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()
