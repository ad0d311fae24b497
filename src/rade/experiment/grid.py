"""The engine: one function over many arguments on Dask, and the function that does a run of a plan."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from rade.data import Dataset, load
from rade.errors import RadeError, RunError
from rade.experiment.plan import Job
from rade.train.record import RunRecord, run_key
from rade.train.run import Keeping, StopAsked, train_run

if TYPE_CHECKING:
    from distributed import Client, Future

A = TypeVar("A")
V = TypeVar("V")
# Seconds to wait for the scheduler's first answer, and between two looks at what goes on.
_PATIENCE, _TICK = 10, 0.1
# Initial parameters come from torch's global generator: two runs in threads of one process would mix.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Outcome(Generic[A, V]):
    """What became of one argument: a value, or one line that says why there is none."""

    argument: A
    value: V | None = None
    failure: str = ""


def run_all(
    function: Callable[[A], V],
    arguments: Iterable[A],
    *,
    workers: int = 1,
    scheduler: str = "",
    stop_asked: StopAsked = lambda: False,
) -> Iterator[Outcome[A, V]]:
    """`function` of every argument, in other processes: outcomes as they come, each argument once.

    function, arguments: travel by cloudpickle with every call, so functions of a script or a notebook will do; what is
        large belongs into a file. Arguments are taken one by one as there is room for them.
    workers: processes of this machine, each with one call at a time; started here and ended with the iterator.
    scheduler: the address of a Dask scheduler, whose workers are used instead, as many as there are at any time.
    stop_asked: looked at all the time; after it says yes nothing starts, what is under way is dropped, and the
        iterator ends. So does closing it.

    A call that raises is an outcome with a failure, and the others go on. A worker that dies costs its call one retry,
    at the end and alone, for another call may be to blame; if that worker dies, too, the call has failed. (A scheduler
    of one's own repeats it `allowed-failures` times before.)
    """
    from distributed import KilledWorker

    queue, suspects, alone = iter(arguments), list[A](), False
    running: dict[Any, A] = {}
    with _client(workers, scheduler) as client:
        try:
            while not stop_asked():
                there = max(1, len(client.nthreads())) if scheduler else workers
                for argument in islice(queue, max(0, (1 if alone else there) - len(running))):
                    running[client.submit(attempt, function, argument, pure=False)] = argument
                if not running and (alone or not suspects):
                    return
                if not running:
                    queue, alone = iter(suspects), True
                ended = [future for future in running if future.done()]
                for future in ended:
                    argument = running.pop(future)
                    if not alone and isinstance(future.exception(), KilledWorker):
                        suspects.append(argument)
                    else:
                        yield _outcome(future, argument)
                if not ended:
                    time.sleep(_TICK)
        except OSError:
            raise RunError(f"the Dask scheduler {scheduler} is gone; once it is back, call again") from None
        finally:
            client.cancel(list(running), force=True)


def run_here(function: Callable[[A], V], arguments: Sequence[A], workers: int | None = None) -> Iterator[Outcome[A, V]]:
    """The same on this machine, by default with a process for every core; where one is enough, in this one."""
    count = processes(arguments, workers)
    return run_all(function, arguments, workers=count) if count > 1 else (attempt(function, one) for one in arguments)


def processes(arguments: Sequence[A], workers: int | None) -> int:
    """As many as there are cores, or as wanted; no more than there are arguments."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(workers or cores, len(arguments))


@contextmanager
def _client(workers: int, scheduler: str) -> Iterator[Client]:
    """A client of the scheduler at an address, or of one with processes of its own."""
    import dask
    from distributed import Client, LocalCluster

    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is reported in a sentence
    if scheduler:
        try:
            client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise RunError(
                f"no Dask scheduler answers at {scheduler} ({' '.join(str(error).split())}); "
                "start one with `dask scheduler`, or leave --scheduler out"
            ) from None
        with client:
            yield client
        return
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "memory_limit": 0}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        _without_main(),
        LocalCluster(**options, dashboard_address=":0", silence_logs=60, host="127.0.0.1") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.run(_ignore_interrupts)
        yield client


@contextmanager
def _without_main() -> Iterator[None]:
    """Let new processes not run the user's script again: functions travel by value, and a script may lack a guard."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches the whole group of processes; ours learn of it from their parent alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def attempt(function: Callable[[A], V], argument: A) -> Outcome[A, V]:
    """Call, and turn whatever is raised into a line."""
    try:
        return Outcome(argument, function(argument))
    except RadeError as error:
        return Outcome(argument, failure=" ".join(str(error).split()))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Outcome(argument, failure=f"{type(error).__name__}: {message} ({where})")


def _outcome(future: Future, argument: A) -> Outcome[A, Any]:
    from distributed import KilledWorker

    try:
        found: Outcome[A, Any] = future.result()
    except KilledWorker:
        return Outcome(argument, failure="every process that tried it died")
    except Exception as error:
        return Outcome(argument, failure=f"Dask lost it: {type(error).__name__}: {' '.join(str(error).split())}")
    finally:
        future.release()  # or it is computed again when its worker dies later
    return found


def perform(job: Job, *, work: Path, data_root: Path | None, threads: int, checkpoint_every: int) -> RunRecord:
    """Train a job on a worker, continuing from its checkpoint in the folder `work`, if the worker sees one there."""
    torch.set_num_threads(threads)
    dataset = _dataset(job.settings.dataset, data_root)
    if run_key(job.settings, job.run, dataset.origin) != job.key:
        raise RunError(
            f"{dataset.name} or rade itself differs here from what the plan was made with; "
            "give every worker the same data files and the same version of rade"
        )
    folder = work / job.key if work.is_dir() else Path(tempfile.gettempdir()) / f"rade-{job.key}"
    keeping = Keeping(checkpoint_every, _dropped)
    try:
        with _ONE_AT_A_TIME:
            return train_run(dataset, job.settings, job.run, folder, resume=True, keeping=keeping)
    finally:
        if not (folder / "checkpoint.pt").exists():
            shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=1)
def _dataset(name: str, root: Path | None) -> Dataset:
    """The last data set stays in memory: jobs come cell by cell."""
    return load(name, root)


def _dropped() -> bool:
    """Whether nobody waits for this call any more: a client that has left must not keep a worker busy for hours."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return False  # in no worker at all
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state in ("cancelled", "released", "forgotten")
