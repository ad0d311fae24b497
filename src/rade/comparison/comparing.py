"""`compare`: does it help *my* model on *my* data?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from torch.nn import Module

from rade.comparison.methods import Way, methods_of
from rade.comparison.outcome import PLAIN, Comparison
from rade.comparison.run import Run, Work
from rade.comparison.store import Folder
from rade.comparison.subjects import subject_of
from rade.comparison.training import Training
from rade.comparison.workers import Job, performed, usual_workers
from rade.statistics import number
from rade.train.errors import RunError

METHODS = ("none", "drop-edge", "rade-of", "rade-ofs")


@dataclass(frozen=True)
class Finished:
    """A run that has just ended, and how many there are; ``str`` is a line for a log."""

    run: Run
    done: int
    total: int

    def __str__(self) -> str:
        run = self.run
        scores = f"test {number(100 * run.test)}, validation {number(100 * run.val)}"
        return f"{self.done}/{self.total}  {run.method}, seed {run.seed}: {scores} in epoch {run.best_epoch}"


def compare(
    make_net: Callable[[], Module],
    data: Any,
    methods: Sequence[str] | Mapping[str, str | Way] = METHODS,
    seeds: int | Sequence[int] = 10,
    *,
    training: Training = Training(),  # noqa: B008 - a frozen value
    workers: int | None = None,
    store: str | PathLike[str] | None = None,
    progress: Callable[[Finished], None] | None = None,
) -> Comparison:
    """Train your own model with each method on the same seeds and splits, and say whether any of them helps.

    Args:
        make_net: builds a new, untrained model on every call.
        data: a PyG ``Data`` with bool masks for training, validation and test ([n], or [n, splits]: seed k takes split
            k); a list or data set of graphs with a label each (80/10/10 % at random, classes in proportion); or a
            data set of `rade.data`, with its own splits, task and score.
        methods: names as in ``rade train``; or by name, what is to be done: a name of those, a value of `rade.augment`,
            or a function from your model to the model that is trained, such as ``lambda net: rade.RADE(net, ...)``.
        seeds: how many, counted from 0, or which.
        training: how all of them are trained.
        workers: processes that share the work, by default as many as there are cores; with 1 all happens in this one.
        store: a folder that keeps every finished run; called again with it, only those that are missing are trained.
        progress: is called after every run; ``print`` will do.

    Returns:
        A `Comparison`: paired differences to the plain model with 95 % intervals, a verdict in one sentence.
    """
    if isinstance(make_net, Module):
        raise TypeError(
            f"make_net must be a function that builds a new model on every call, got a {type(make_net).__name__}; pass "
            "its class, or lambda: Net(...)"
        )
    problem, training = subject_of(data, training)
    work = Work(make_net, problem, methods_of(methods, problem, training), training)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"seeds must be a number of at least 1, or different numbers from 0 on, got {seeds!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, or None for as many as there are cores, got {workers!r}")
    metric = work.rehearse()
    names = [method.name for method in work.methods]
    jobs = [Job(name, seed) for seed in numbers for name in names]
    with _folder(store, work, numbers) as folder:
        runs, notes = _collected(work, jobs, workers, folder, progress)
    reference = PLAIN if PLAIN in names else names[0]
    if not any(run.method == reference for run in runs):
        raise RunError(f"no run of {reference!r} ended well, so there is nothing to compare with: {notes[-1]}")
    return Comparison(tuple(runs), metric, reference, problem.ratio, tuple(notes))


@contextmanager
def _folder(store: str | PathLike[str] | None, work: Work, seeds: tuple[int, ...]) -> Iterator[Folder | None]:
    if store is None:
        yield None
        return
    with Folder.of(Path(store), work, seeds) as folder:
        yield folder


def _collected(
    work: Work,
    jobs: Sequence[Job],
    workers: int | None,
    folder: Folder | None,
    progress: Callable[[Finished], None] | None,
) -> tuple[list[Run], list[str]]:
    """All runs in the order of the jobs, those of the folder among them; and what there is to be said."""
    found = {} if folder is None else {job: folder.get(job.method, job.seed) for job in jobs}
    runs = {job: run for job, run in found.items() if run is not None}
    notes: list[str] = []

    def say(sentence: str) -> None:
        notes.append(sentence)
        warnings.warn(sentence, stacklevel=5)

    missing = [job for job in jobs if job not in runs]
    asked = usual_workers(len(missing)) if workers is None else workers
    for outcome in performed(work, missing, asked, say):
        if not isinstance(outcome, Run):
            job, reason = outcome
            notes.append(f"{job.key} failed: {reason}")
            continue
        runs[Job(outcome.method, outcome.seed)] = outcome
        if folder is not None:
            folder.put(outcome)
        if progress is not None:
            progress(Finished(outcome, len(runs), len(jobs)))
    return [runs[job] for job in jobs if job in runs], notes
