"""A lock on a folder: one writer at a time, on one machine or on many that share a file system.

A file that only one process can create names its holder. Nothing depends on how a file system locks. The lock of a
process that is gone is taken over: on the same machine its number is looked up; on another one its lock grows old,
because a holder touches it every minute.
"""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rade.errors import EnvironmentFault, RadeError, is_machine

NAME = ".lock"
TOUCH = 60.0  # seconds between signs of life
STALE = 15 * TOUCH  # silence after which the holder on another machine, or an unreadable lock, counts as gone


class Locked(RadeError):
    """Somebody else writes here; ``by`` says who."""

    def __init__(self, sentence: str, by: str = "another process") -> None:
        super().__init__(sentence)
        self.by = by


@dataclass(frozen=True)
class Holder:
    """Who holds a lock; `born` tells a process from a later one with the same number."""

    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    born: str = field(default_factory=lambda: _born(os.getpid()))
    since: str = field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def gone(self, silence: float) -> bool:
        """Whether the process has ended, as far as one can tell from here."""
        if self.host != socket.gethostname():
            return silence > STALE
        return not _alive(self.pid) or _born(self.pid) != self.born

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it is not there; refuse while somebody else holds it."""
    with holding(folder / NAME):
        yield


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the lock that a file is, in a folder that is created if it is not there."""
    me = Holder()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _create(path, me):
            _take_over(path, me)
    except OSError as error:
        kind = EnvironmentFault if is_machine(error, writing=True) else RadeError
        why = f"cannot write to {path.parent}: {error.strerror or error}"
        raise kind(f"{why}; choose another folder with --out") from None
    ended = threading.Event()
    threading.Thread(target=_touch, args=(path, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        if _holder(path) == me:
            with suppress(OSError):  # a lock that cannot be removed is recognised as stale
                path.unlink(missing_ok=True)


def _create(path: Path, me: Holder) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(me)))
    except OSError:
        path.unlink(missing_ok=True)  # a full disk must not leave an empty lock
        raise
    return True


def _take_over(path: Path, me: Holder) -> None:
    """Replace the lock of somebody who is gone; one process at a time may try."""
    _refuse_the_living(path)
    guard = path.with_name(f"{path.name}.takeover")
    if _silence(guard, path.parent) > TOUCH:
        guard.unlink(missing_ok=True)
    if not _create(guard, me):
        raise Locked(f"{path.parent} is just being taken over by another process; try again in a minute")
    try:
        # Looked at again: between the first look and the guard somebody else may have come.
        _refuse_the_living(path)
        path.unlink(missing_ok=True)
        if not _create(path, me):
            raise _in_use(path, _holder(path))
    finally:
        guard.unlink(missing_ok=True)


def _in_use(path: Path, holder: Holder | None) -> Locked:
    who = str(holder or "another process")
    return Locked(f"{path.parent} is in use by {who}; wait for it, or choose another folder with --out", who)


def _refuse_the_living(path: Path) -> None:
    silence, holder = _silence(path, path.parent), _holder(path)
    gone = silence > STALE if holder is None else holder.gone(silence)
    if path.exists() and not gone:
        raise _in_use(path, holder)


def _holder(path: Path) -> Holder | None:
    """Who is written in a lock; None if nobody can be read there."""
    try:
        found = Holder(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    plain = isinstance(found.pid, int) and all(isinstance(v, str) for k, v in vars(found).items() if k != "pid")
    return found if plain else None


def _silence(path: Path, folder: Path) -> float:
    """Seconds since a file was touched, by the clock of the file system that holds it; 0 if it is not there."""
    probe = folder / f"{NAME}.{secrets.token_hex(4)}"
    try:
        probe.touch(exist_ok=False)
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    finally:
        probe.unlink(missing_ok=True)


def _touch(path: Path, ended: threading.Event) -> None:
    while not ended.wait(TOUCH):
        with suppress(OSError):
            os.utime(path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it belongs to somebody else
    return pid > 0


def _born(pid: int) -> str:
    """When a process started, in the kernel's own words; empty where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return ""
