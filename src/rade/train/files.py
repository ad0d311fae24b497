"""Files that are replaced whole or not at all, with a checksum that is verified before anything is parsed."""

import hashlib
import io
import json
import os
import pickle
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from rade.errors import EnvironmentFault, is_machine
from rade.seal import SealError, sealed, verify
from rade.train.errors import RunError
from rade.train.record import RecordError, RunRecord

# Behind the archive that torch writes and still reads with it: a mark and the sha256 of everything before.
_MARK = b"\nrade sha256 "
_TRAILER = len(_MARK) + 64
_DAMAGED = "is damaged or not a file of rade; delete it to start this run afresh"


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside `path`, force it to the disk, then rename: a reader finds the old file or the new one.

    A link stays and its target is replaced; a device or a pipe is written to as it is.
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
        _replace(target, write)
    except OSError as error:
        raise _cannot("write to", path.parent, error, "; choose another folder with --out") from None
    _sync_folder(target.parent)


def _replace(target: Path, write: Callable[[BinaryIO], object]) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    # Opened as any other file, so that the umask decides who may read it; what is there already keeps its mode.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sweep(folder: Path, *names: str) -> None:
    """Remove what killed processes left half-written for files of these names; only under the folder's lock."""
    for name in names:
        for orphan in folder.glob(f".{name}.*"):
            orphan.unlink(missing_ok=True)


def save_tensors(path: Path, state: Any) -> None:
    """Write a nest of tensors and plain values, and their checksum."""
    import torch  # here, so that reports can use the other functions without it

    # In memory first: torch turns a full disk into errors of its own, and may end the process.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    trailer = _MARK + hashlib.sha256(content).hexdigest().encode()
    write_whole(path, lambda file: (file.write(content), file.write(trailer)))


def load_tensors(path: Path) -> Any:
    """Read what `save_tensors` wrote; nothing in the file is executed, and nothing damaged is parsed."""
    import torch

    content = _read(path)
    body, trailer = content[:-_TRAILER], content[-_TRAILER:]
    if trailer != _MARK + hashlib.sha256(body).hexdigest().encode():
        raise RunError(f"{path} {_DAMAGED}")
    try:
        return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, LookupError, ValueError, TypeError, AttributeError, pickle.UnpicklingError):
        raise RunError(f"{path} {_DAMAGED}") from None


def save_json(path: Path, content: Any) -> None:
    """Write JSON, indented and with a final newline; numbers that JSON lacks are refused."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def save_record(path: Path, record: dict[str, Any]) -> None:
    """Write a JSON object with its checksum."""
    save_json(path, sealed(record))


def load_record(path: Path) -> dict[str, Any]:
    """Read what `save_record` wrote, with its checksum."""
    try:
        record = json.loads(_read(path).decode("utf-8"))
        verify(record)
    except SealError as error:
        raise RunError(f"{path} cannot be trusted: {error}; delete it to start this run afresh") from None
    except (ValueError, RecursionError):
        raise RunError(f"{path} {_DAMAGED}") from None
    return dict(record)


def load_run_record(path: Path) -> RunRecord:
    """Read a `result.json`."""
    try:
        return RunRecord.from_json(_read(path))
    except RecordError as error:
        raise RunError(f"{path} {error}; delete it to start this run afresh") from None


def ensure_writable(folder: Path) -> None:
    """Create a folder and try to write there, before hours of work depend on it."""
    write_whole(folder / ".writable", lambda file: None)
    (folder / ".writable").unlink(missing_ok=True)  # another process may have tried at the same time


def remove(path: Path) -> None:
    """Delete a file that may be missing."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _cannot("delete", path, error, "; move it away") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"there is no file {path}; is this the folder of a finished run?") from None
    except OSError as error:
        raise _cannot("read", path, error, "") from None


def _cannot(do: str, path: Path, error: OSError, advice: str) -> RunError | EnvironmentFault:
    """The sentence for a file system that refuses; what is wrong with the machine differs from a wrong path."""
    kind = EnvironmentFault if is_machine(error, writing=do == "write to") else RunError
    return kind(f"cannot {do} {path}: {error.strerror or error}{advice}")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; a file system that cannot sync folders renames safely enough."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
