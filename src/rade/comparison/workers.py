"""Runs side by side in other processes where these can import the user's functions, else one after another here."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cloudpickle
import torch

from rade.comparison.run import Run, Work
from rade.experiment.grid import Outcome, attempt, run_all


@dataclass(frozen=True)
class Job:
    """One run that is to be done."""

    method: str
    seed: int

    @property
    def key(self) -> str:
        """Its name."""
        return f"{self.method}, seed {self.seed}"


Failure = tuple[Job, str]


@dataclass(frozen=True)
class Perform:
    """Does a job in another process; the work lies in a file, so that the data travels once and not with every job."""

    path: str

    def __call__(self, job: Job) -> Run:
        """The run."""
        torch.set_num_threads(1)  # as many processes as cores
        return _read(self.path)(job.method, job.seed)


@lru_cache(maxsize=1)
def _read(path: str) -> Work:
    found: Work = pickle.loads(Path(path).read_bytes())
    return found


@dataclass(frozen=True)
class Here:
    """Does a job in this process."""

    work: Work

    def __call__(self, job: Job) -> Run:
        """The run."""
        return self.work(job.method, job.seed)


def usual_workers(jobs: int) -> int:
    """As many processes as cores that this one may use, but not more than jobs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, jobs))


def performed(work: Work, jobs: Sequence[Job], workers: int, say: Callable[[str], None]) -> Iterator[Run | Failure]:
    """Finished runs and failures as they come; ``say`` is told why there are no other processes, if there are none."""
    if workers > 1 and jobs:
        with _payload(work) as (path, trouble):
            if not trouble:
                yield from _outcomes(run_all(Perform(path), jobs, workers=workers))
                return
        say(f"the runs go one after another in this process, for others cannot take over the work ({trouble})")
    yield from _outcomes(attempt(Here(work), job) for job in jobs)


@contextmanager
def _payload(work: Work) -> Iterator[tuple[str, str]]:
    """A file with the work, and what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="rade-") as folder:
        path, trouble = Path(folder) / "work", ""
        try:
            path.write_bytes(cloudpickle.dumps(work))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            trouble = " ".join(str(error).split())
        yield str(path), trouble


def _outcomes(outcomes: Iterator[Outcome[Job, Run]]) -> Iterator[Run | Failure]:
    for outcome in outcomes:
        yield (outcome.argument, outcome.failure) if outcome.value is None else outcome.value
