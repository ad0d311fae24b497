"""`compare`: does it help *my* model on *my* data?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import index
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.nn import Module

from rade.comparison.outcome import PLAIN, Comparison
from rade.comparison.problems import Training, own_problem
from rade.comparison.work import Job, Work
from rade.errors import RunError
from rade.experiment.store import Store, open_store
from rade.report.words import ended
from rade.train.learner import Context, Method
from rade.train.methods import METHODS as NAMED
from rade.train.methods import RandomAddDrop, find_method, make
from rade.train.record import RunRecord, run_key

METHODS = ("none", "drop-edge", "rade", "rade-ofs")
PENALTY = 0.1  # of the paper, for graph tasks
Way = Callable[[Module], Module] | Method


@dataclass(frozen=True)
class Finished:
    """A run that has just ended, and how many there are; ``str`` is a line for a log."""

    run: RunRecord
    done: int
    total: int

    def __str__(self) -> str:
        return f"{self.done}/{self.total}  {self.run.method}, seed {self.run.seed}: {ended(self.run)}"


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
        methods: names as in ``rade train``, ``"rade"`` being ``rade.RADE(net)`` as it comes; or by name, what is to be
            done: a name of those, a `rade.train.Method`, or a function from your model to the model that is trained,
            such as ``lambda net: rade.RADE(net, ...)``.
        seeds: how many, counted from 0, or which.
        training: how all of them are trained.
        workers: processes that share the work, by default as many as there are cores; with 1 all happens in this one.
        store: a file that keeps every finished run; called again with it, only those that are missing are trained, and
            all if anything of your own has changed.
        progress: is called after every run; ``print`` will do.

    Returns:
        A `Comparison`: paired differences to the plain model with 95 % intervals, a sentence for each method.
    """
    if isinstance(make_net, Module):
        raise TypeError(
            f"make_net must be a function that builds a new model on every call, got a {type(make_net).__name__}; pass "
            "its class, or lambda: Net(...)"
        )
    problem, training = own_problem(data, training)
    work = Work(make_net, problem, methods_of(methods, problem.level == "graph", training), training)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(map(index, seeds))  # of numpy, too
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"seeds must be a number of at least 1, or different numbers from 0 on, got {seeds!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, or None for as many as there are cores, got {workers!r}")
    threads, notes = torch.get_num_threads(), list[str]()
    try:
        with torch.random.fork_rng(devices=[]):  # the global generator is left as it was
            torch.set_num_threads(1)
            work.rehearse()
            identities = work.identities() if store is not None else {}
            jobs = [Job(name, seed, identities.get(name, "")) for seed in numbers for name in work.methods]
            with nullcontext() if store is None else open_store(Path(store)).writing() as kept:
                runs = _collected(work, jobs, workers, kept, progress, notes)
    finally:
        torch.set_num_threads(threads)
    reference = PLAIN if PLAIN in work.methods else next(iter(work.methods))
    if not any(run.method == reference for run in runs):
        raise RunError(f"no run of {reference!r} ended well, so there is nothing to compare with: {notes[-1]}")
    named = [(name, method) for name, method in work.methods.items() if name in NAMED]
    baselines = tuple(name for name, method in named if not isinstance(method, RandomAddDrop | Function))
    return Comparison(tuple(runs), reference, problem.ratio, tuple(notes), baselines)


def _collected(
    work: Work,
    jobs: Sequence[Job],
    workers: int | None,
    store: Store | None,
    progress: Callable[[Finished], None] | None,
    notes: list[str],
) -> list[RunRecord]:
    """All runs in the order of the jobs, those of the store among them."""
    runs: dict[Job, RunRecord] = {}
    if store is not None:
        there = {record.key: record for record in store.records(dataset=work.problem.name)}
        keys = {job: run_key(work.plan(job), job.seed, work.problem.origin) for job in jobs}
        runs = {job: there[key] for job, key in keys.items() if key in there}
    missing = [job for job in jobs if job not in runs]
    for outcome in work.outcomes(missing, workers, notes):
        job = outcome.argument
        if outcome.value is None:
            notes.append(f"{job.method}, seed {job.seed} failed: {outcome.failure}")
            continue
        runs[job] = outcome.value
        if store is not None:
            store.put(outcome.value)
        if progress is not None:
            progress(Finished(runs[job], len(runs), len(jobs)))
    return [runs[job] for job in jobs if job in runs]


@dataclass(frozen=True)
class Function(Method):
    """A function from the user's model to the one that is trained."""

    make: Callable[[Module], Module]

    def around(self, net: Module, context: Context) -> Module:
        """What the function returns."""
        return self.make(net)


def methods_of(given: Sequence[str] | Mapping[str, str | Way], graphs: bool, training: Training) -> dict[str, Method]:
    """The methods by the names that tables use, checked; those of graph tasks with the paper's penalty for them."""
    if isinstance(given, str):
        raise TypeError(f"methods must be several names, such as ('none', {given!r}), got {given!r}")
    named: dict[str, str | Way] = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    found = {name: _method(way, graphs) for name, way in named.items()}
    if len(found) < 2 or len(found) < len(given):
        raise ValueError(f"a comparison needs at least two different methods, got {len(given)}: {', '.join(given)}")
    for name, method in found.items():
        if graphs and training.pool is None and "pooling_rule" in method.options:
            raise ValueError(
                f"the rates of {name} adapt by how the model pools nodes to graphs: say Training(pool='sum') or "
                "Training(pool='mean'), or keep them ('rade', 'rade-of-fixed', 'rade-of-noise')"
            )
    return found


def _method(way: str | Way, graphs: bool) -> Method:
    if isinstance(way, str):
        return make(way, **({"penalty": PENALTY} if graphs and "penalty" in find_method(way).options else {}))
    if isinstance(way, Method):
        return way
    if not callable(way):
        raise TypeError(f"a method is a name, a function from model to model, or a rade.train.Method, got {way!r}")
    return Function(way)
