"""Jobs in processes of this machine. A process that is killed costs its own job an attempt and nobody else anything.

The executors of the standard library and of joblib give up the whole pool when one process dies, and cannot tell whose
job killed it; here every process has a pipe of its own and one job at a time.
"""

import ctypes
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from rade.experiment.engine import TRIES, Action, Event, attempt
from rade.experiment.jobs import Job
from rade.train.checkpoint import StopAsked

# Spawned, not forked: torch's threads do not survive a fork.
_CONTEXT = get_context("spawn")
# Seconds between two looks at a request to stop, and between two reports of a job's epoch.
_TICK, _PACE = 0.2, 0.5


class _Worker:
    """A process and the job that it has."""

    def __init__(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
        with _ignoring_interrupts():
            self.process.start()
        theirs.close()
        self.job: Job | None = None

    def give(self, job: Job, action: Action) -> None:
        self.job = job
        with suppress(OSError):  # it has died: reading from it will tell
            self.connection.send((job, action))

    def end(self) -> str:
        """Let it go, and say how it ended."""
        self.connection.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"


@dataclass
class LocalPool:
    """Up to `workers` processes, kept from one `run` to the next; a job that kills `tries` of them is given up."""

    workers: int
    tries: int = TRIES
    _all: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def run(self, jobs: Iterator[Job], action: Action, stop_asked: StopAsked) -> Iterator[Event]:
        """Events as they come; a request to stop is passed on, and every process saves the state of its job."""
        again: deque[Job] = deque()
        deaths: Counter[str] = Counter()
        told = False
        try:
            while True:
                if stop_asked() and not told:
                    told = True
                    for worker in self._all:
                        worker.process.terminate()
                if not told:
                    yield from self._fill(again, jobs, action)
                busy = {worker.connection: worker for worker in self._all if worker.job is not None}
                if not busy:
                    return
                for connection in wait(list(busy), timeout=_TICK):
                    yield self._listen(busy[connection], again, deaths, told)  # type: ignore[index]
        finally:
            self._drop_busy()

    def _fill(self, again: deque[Job], jobs: Iterator[Job], action: Action) -> Iterator[Event]:
        """Give a job to everyone who has none."""
        while sum(worker.job is not None for worker in self._all) < self.workers:
            job = again.popleft() if again else next(jobs, None)
            if job is None:
                return
            idle = [worker for worker in self._all if worker.job is None]
            if not idle:
                idle = [_Worker()]
                self._all += idle
            idle[0].give(job, action)
            yield Event("started", job)

    def _listen(self, worker: _Worker, again: deque[Job], deaths: Counter[str], told: bool) -> Event:
        """The next event of a process, or its death."""
        job = worker.job
        assert job is not None
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            self._all.remove(worker)
            how = worker.end()
            deaths[job.key] += 1
            if told:
                return Event("stopped", job)
            if deaths[job.key] >= self.tries:
                return Event("failed", job, f"its process died {self.tries} times, the last time by {how}")
            again.append(job)
            return Event("lost", job, f"its process died by {how}; it starts again from its last checkpoint")
        if event.kind != "epoch":
            worker.job = None
        return event

    def close(self) -> None:
        """Leave no process behind."""
        self._drop_busy()
        for worker in self._all:
            worker.end()
        self._all.clear()

    def _drop_busy(self) -> None:
        """Whoever is still at work when nobody listens any more is killed; its checkpoint remains."""
        for worker in [worker for worker in self._all if worker.job is not None]:
            worker.process.kill()
            worker.end()
            self._all.remove(worker)


def _serve(connection: Connection) -> None:
    """The life of a process: jobs one after the other until the pipe closes."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    while True:
        try:
            job, action = connection.recv()
        except (EOFError, OSError):
            return
        last = [0.0]

        def observe(epoch: int, job: Job = job, last: list[float] = last) -> None:
            if time.monotonic() - last[0] >= _PACE:
                last[0] = time.monotonic()
                connection.send(Event("epoch", job, epoch))

        connection.send(attempt(job, action, observe, lambda: bool(asked)))
        _give_back()
        if asked:
            return


def _give_back() -> None:
    """Return freed memory to the system. The C library keeps it in pieces between tensors of ever other sizes: after
    forty runs of CiteSeer a process held 5.5 GB, of which 20 MB were in use.
    """
    with suppress(OSError, AttributeError, TypeError):  # other C libraries have no such call, Windows no such handle
        ctypes.CDLL(None).malloc_trim(0)


def _die_with_parent() -> None:
    """A parent that was killed cannot say goodbye; an orphan would go on beside the next grid's process."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _ignoring_interrupts() -> Iterator[Any]:
    """Ctrl-C reaches the whole group of processes; ours hear of it from their parent alone."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
