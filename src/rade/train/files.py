"""Files that are replaced whole or not at all."""

import json
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from rade.train.errors import RunError


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside `path`, force it to the disk, then rename: a reader finds the old file or the new one."""
    if path.is_dir():
        raise RunError(f"{path} is a folder, and a file is to be written; add a file's name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise RunError(f"cannot write to {path.parent}: {error.strerror}; choose another folder with --out") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp makes it private; a shared folder is read by others
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}; make room there or choose another folder") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def save_tensors(path: Path, state: Any) -> None:
    """Write a nest of tensors and plain values."""
    import torch  # here, so that reports can use the other functions without it

    write_whole(path, lambda file: torch.save(state, file))


def load_tensors(path: Path) -> Any:
    """Read what `save_tensors` wrote; nothing in the file is executed."""
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise RunError(f"there is no file {path}; is this the folder of a finished run?") from None
    except (OSError, RuntimeError, EOFError, KeyError, ValueError, pickle.UnpicklingError):
        raise RunError(f"{path} is damaged or not a file of rade; delete it to start this run afresh") from None


def save_json(path: Path, content: Any) -> None:
    """Write JSON, indented and with a final newline."""
    text = json.dumps(content, indent=1) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def load_json(path: Path) -> Any:
    """Read JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunError(f"there is no file {path}; is this the folder of a finished run?") from None
    except (OSError, ValueError):
        raise RunError(f"{path} is damaged or not a file of rade; delete it to start this run afresh") from None


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


def ensure_writable(folder: Path) -> None:
    """Create a folder and try to write there, before hours of work depend on it."""
    write_whole(folder / ".writable", lambda file: None)
    (folder / ".writable").unlink(missing_ok=True)  # another process may have tried at the same time
