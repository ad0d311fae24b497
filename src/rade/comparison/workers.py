"""Runs side by side in other processes where these can import the user's functions, else one after another here."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import torch

from rade.comparison.run import Run, Work
from rade.experiment.engine import TRIES, Event, attempt
from rade.experiment.pool import LocalPool
from rade.train.checkpoint import never


@dataclass(frozen=True)
class Job:
    """One run that is to be done."""

    method: str
    seed: int

    @property
    def key(self) -> str:
        """Its name."""
        return f"{self.method}, seed {self.seed}"


PROBE = Job("", -1)  # only asks whether the work can be read
Failure = tuple[Job, str]


@dataclass(frozen=True)
class Perform:
    """Does a job in another process; the work lies in a file, so that the data travels once and not with every job."""

    path: str

    def __call__(self, job: Job, observe: Callable[[int], None], stop_asked: Callable[[], bool]) -> Run | None:
        """The run; nothing for the probe."""
        torch.set_num_threads(1)  # as many processes as cores
        work = _read(self.path)
        return None if job == PROBE else work(job.method, job.seed)


@lru_cache(maxsize=1)
def _read(path: str) -> Work:
    found: Work = pickle.loads(Path(path).read_bytes())
    return found


@dataclass(frozen=True)
class Here:
    """Does a job in this process."""

    work: Work

    def __call__(self, job: Job, observe: Callable[[int], None], stop_asked: Callable[[], bool]) -> Run:
        """The run."""
        return self.work(job.method, job.seed)


def usual_workers(jobs: int) -> int:
    """As many processes as cores that this one may use, but not more than jobs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, jobs))


def is_a_copy_of_the_script() -> bool:
    """Whether this is a new process that reads the user's script for its functions, and came to `compare` thereby."""
    return "_inheriting" in vars(current_process())  # what multiprocessing's own guard looks at


def performed(work: Work, jobs: Sequence[Job], workers: int, say: Callable[[str], None]) -> Iterator[Run | Failure]:
    """Finished runs and failures as they come; ``say`` is told why there are no other processes, if there are none."""
    if workers > 1 and jobs:
        with _payload(work) as (path, trouble):
            pool: Any = LocalPool(workers, tries=1)  # asks of a job only its key
            try:
                trouble = trouble or _trouble(pool, path)
                if not trouble:
                    pool.tries = TRIES
                    yield from _outcomes(pool.run(iter(jobs), Perform(path), never))
                    return
            finally:
                pool.close()
        say(
            f"the runs go one after another in this process, for others cannot take over the work ({trouble}): put "
            "make_net and all functions into a module, and the call under if __name__ == '__main__':"
        )
    yield from _outcomes(attempt(job, Here(work), _ignore, never) for job in jobs)  # type: ignore[arg-type]


@contextmanager
def _payload(work: Work) -> Iterator[tuple[str, str]]:
    """A file with the work, and what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="rade-") as folder:
        path, trouble = Path(folder) / "work", ""
        try:
            path.write_bytes(pickle.dumps(work))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            trouble = " ".join(str(error).split())
        script = vars(sys.modules["__main__"]).get("__file__")
        if script is not None and not Path(script).exists():
            trouble = "the program is no file that they could read"
        yield str(path), trouble


def _trouble(pool: Any, path: str) -> str:
    """Why a process of the pool cannot read the work."""
    (event,) = (event for event in pool.run(iter([PROBE]), Perform(path), never) if event.kind in ("done", "failed"))
    if event.kind == "done":
        return ""
    died = "its process died" in str(event.value)
    return "a process ended when it read this program for its functions" if died else str(event.value)


def _outcomes(events: Iterator[Event]) -> Iterator[Run | Failure]:
    for event in events:
        if event.kind == "done":
            yield event.value
        elif event.kind == "failed":
            job: Any = event.job
            yield job, str(event.value)


def _ignore(epoch: int) -> None:
    pass
