"""What a worker does with a job: train it where the store keeps unfinished runs, and hand in the row."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from rade.data import Dataset, load
from rade.experiment.jobs import Job
from rade.experiment.store import Store
from rade.train.checkpoint import Keeping, StopAsked
from rade.train.denoising import corrupted
from rade.train.errors import RunError
from rade.train.files import load_tensors
from rade.train.progress import Progress
from rade.train.record import RunRecord as Row
from rade.train.record import origin
from rade.train.run import run_key, train_run

Observe = Callable[[int], None]
# Initial parameters come from torch's global generator: two runs in threads of one process would mix.
_ONE_AT_A_TIME = threading.Lock()
# Epochs of a trial; the first one warms up and is not counted.
TRIAL_EPOCHS = 3


@dataclass(frozen=True)
class Place:
    """Where and how jobs are done."""

    store: Path
    data_root: Path | None = None
    threads: int = 1
    checkpoint_every: int = 50


@dataclass(frozen=True)
class Perform:
    """Train a job, continuing from its checkpoint if there is one; the row is in the store when this returns."""

    place: Place

    def __call__(self, job: Job, observe: Observe, stop_asked: StopAsked) -> Row:
        """The row of the job."""
        dataset = prepared(job, self.place)
        with _ONE_AT_A_TIME, _folder(job, self.place) as folder:
            _discard_damaged(folder / "checkpoint.pt")
            row = train_run(
                dataset,
                job.settings,
                job.run,
                folder,
                resume=True,
                observe=lambda progress: observe(progress.epoch),
                keeping=Keeping(self.place.checkpoint_every, stop_asked),
            )
            if self.place.store.is_dir():
                Store(self.place.store).put(row)
        return row


@dataclass(frozen=True)
class Trial:
    """The seconds that an epoch of a job takes, from a few of them."""

    place: Place

    def __call__(self, job: Job, observe: Observe, stop_asked: StopAsked) -> float:
        """The fastest epoch after the first."""
        seconds: list[float] = []
        observe(0)  # a process is at work: it has started and imported everything

        def note(progress: Progress) -> None:
            seconds[:] = progress.seconds

        dataset = prepared(job, self.place)
        short = job.settings.model_copy(update={"epochs": TRIAL_EPOCHS, "patience": 0})
        with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
            train_run(dataset, short, job.run, Path(folder), observe=note, keeping=Keeping(stop_asked=stop_asked))
        return min(seconds[1:])


def prepared(job: Job, place: Place) -> Dataset:
    """The job's data set, checked to be the one that the plan was made with."""
    torch.set_num_threads(place.threads)
    dataset = corrupted(_dataset(job.settings.dataset, place.data_root), job.settings)
    if run_key(job.settings, job.run, origin(dataset)) != job.key:
        raise RunError(
            f"{dataset.name} or rade itself differs here from what the plan was made with; "
            "give every worker the same data files and the same version of rade"
        )
    return dataset


@lru_cache(maxsize=1)
def _dataset(name: str, root: Path | None) -> Dataset:
    """The last data set stays in memory: jobs come cell by cell."""
    return load(name, root)


@contextmanager
def _folder(job: Job, place: Place) -> Iterator[Path]:
    """The run's folder in the store; beside it where this machine does not see the store. Goes with the last use."""
    shared = place.store.is_dir()
    folder = Store(place.store).work(job.key) if shared else Path(tempfile.gettempdir()) / f"rade-{job.key}"
    try:
        yield folder
    except BaseException:
        if not (folder / "checkpoint.pt").exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _discard_damaged(path: Path) -> None:
    """A checkpoint that cannot be read must not keep its run from ever finishing."""
    if path.exists():
        try:
            load_tensors(path)
        except RunError:
            path.unlink(missing_ok=True)
