"""`compare`: does it help *my* model on *my* data?"""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch.nn import Module

from rade.comparison.identity import identity
from rade.comparison.outcome import PLAIN, Comparison
from rade.comparison.problems import Training, own_problem, with_task
from rade.errors import RunError, outside
from rade.experiment.grid import Outcome, attempt, run_all
from rade.experiment.store import Store
from rade.statistics import number
from rade.train.batches import batches_of
from rade.train.learner import Call, Context, Method, OwnLearner, Step, way_to_call
from rade.train.methods import METHODS as NAMED
from rade.train.methods import RandomAddDrop, find_method, make
from rade.train.record import RunRecord
from rade.train.run import run_key, train
from rade.train.settings import Plan
from rade.train.tasks import Problem, derive, generator

METHODS = ("none", "drop-edge", "rade", "rade-ofs")
PENALTY = 0.1  # of the paper, for graph tasks
Way = Callable[[Module], Module] | Method


class Job(NamedTuple):
    """A run of a comparison."""

    method: str
    seed: int


@dataclass(frozen=True)
class Finished:
    """A run that has just ended, and how many there are; ``str`` is a line for a log."""

    run: RunRecord
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
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"seeds must be a number of at least 1, or different numbers from 0 on, got {seeds!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, or None for as many as there are cores, got {workers!r}")
    with _one_thread():
        work.rehearse()
        jobs = [Job(name, seed) for seed in numbers for name in work.methods]
        notes: list[str] = []
        keeping = nullcontext(None) if store is None else Store(Path(store)).writing()
        with keeping as kept:
            runs = _collected(work, jobs, workers, kept, progress, notes)
    reference = PLAIN if PLAIN in work.methods else next(iter(work.methods))
    if not any(run.method == reference for run in runs):
        raise RunError(f"no run of {reference!r} ended well, so there is nothing to compare with: {notes[-1]}")
    others = {name for name, method in work.methods.items() if not isinstance(method, RandomAddDrop | Function)}
    baselines = tuple(name for name in NAMED if name in others)
    return Comparison(tuple(runs), work.problem.metric, reference, problem.ratio, tuple(notes), baselines)


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
        work.identify()
        there = {record.key: record for record in store.records(dataset=work.problem.name)}
        keys = {job: run_key(work.plan(job), job.seed, work.problem.origin) for job in jobs}
        runs = {job: there[key] for job, key in keys.items() if key in there}
    missing = [job for job in jobs if job not in runs]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for outcome in work.outcomes(missing, min(workers or cores, len(missing)), notes):
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

    name: str
    make: Callable[[Module], Module]

    def around(self, net: Module, context: Context) -> Module:
        """What the function returns."""
        found = self.make(net)
        if not isinstance(found, Module):
            raise TypeError(f"method {self.name!r} must return a model, got {type(found).__name__}")
        return found


def methods_of(given: Sequence[str] | Mapping[str, str | Way], graphs: bool, training: Training) -> dict[str, Method]:
    """The methods by the names that tables use, checked; those of graph tasks with the paper's penalty for them."""
    if isinstance(given, str):
        raise TypeError(f"methods must be several names, such as ('none', {given!r}), got {given!r}")
    named: dict[str, str | Way] = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    found = {name: _method(name, way, graphs) for name, way in named.items()}
    if len(found) < 2 or len(found) < len(given):
        raise ValueError(f"a comparison needs at least two different methods, got {len(given)}: {', '.join(given)}")
    for name, method in found.items():
        if graphs and training.pool is None and "pooling_rule" in method.options:
            raise ValueError(
                f"the rates of {name} adapt by how the model pools nodes to graphs: say Training(pool='sum') or "
                "Training(pool='mean'), or keep them ('rade', 'rade-of-fixed', 'rade-of-noise')"
            )
    return found


def _method(name: str, way: str | Way, graphs: bool) -> Method:
    if isinstance(way, str):
        return make(way, **({"penalty": PENALTY} if graphs and "penalty" in find_method(way).options else {}))
    if isinstance(way, Method):
        return way
    if not callable(way):
        raise TypeError(f"a method is a name, a function from model to model, or a rade.train.Method, got {way!r}")
    return Function(name, way)


class OwnPlan(Plan):
    """A plan for a model of the user's; identity: of the model under its method, and of the training."""

    identity: str = ""


@dataclass(eq=False)
class Work:
    """All that decides the runs of a comparison; it travels to other processes whole.

    identities: of the methods, where a store wants to know.
    """

    make_net: Callable[[], Module]
    problem: Problem
    methods: dict[str, Method]
    training: Training
    identities: dict[str, str] = field(default_factory=dict)

    def rehearse(self) -> None:
        """One step of every method, so that what cannot work says so before training; it also tells the task."""
        for name in self.methods:
            try:
                with torch.random.fork_rng(devices=[]):
                    learner = self.learner(name, 0).train()
                    step, task = self._first_step, self.problem.task
                    outputs = learner(step)
                    loss = task.loss(outputs, step.labels) + learner.penalty(step, outputs)
                    loss.backward()  # type: ignore[no-untyped-call]
                    if learner.adapts_after(True):
                        learner.adapt(step, lambda logits: task.loss(logits, step.labels))  # noqa: B023
            except (ValueError, TypeError, RuntimeError) as refusal:
                kind = next(kind for kind in (ValueError, TypeError, RuntimeError) if isinstance(refusal, kind))
                raise kind(f"method {name!r}: {' '.join(str(refusal).split())}") from refusal

    def __call__(self, job: Job) -> RunRecord:
        """Train; what there is to warn of was said in the rehearsal."""
        with _one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(self.problem, self.learner(job.method, job.seed), self.plan(job), job.seed)

    def plan(self, job: Job) -> OwnPlan:
        """How a job is trained."""
        training, whole = self.training, self.problem.level == "node"
        return OwnPlan(
            dataset=self.problem.name,
            backbone=str(getattr(self.make_net, "__name__", type(self.make_net).__name__)),
            method=job.method,
            epochs=training.epochs,
            patience=training.patience,
            optimizer="adam",
            lr=training.lr,
            weight_decay=training.weight_decay,
            schedule="constant",
            batch_size=0 if whole else training.batch_size,
            eval_batch_size=0,
            fanouts=(),
            device=str(self.problem.labels.device),
            identity=self.identities.get(job.method, ""),
        )

    def identify(self) -> None:
        """Tell what decides the runs of each method: data, training, and the model under it as seed 0 begins."""
        data = [one.to_dict() for one in self.problem.graphs]
        for name, method in self.methods.items():
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                net, state = self._net(0)[0], self.learner(name, 0).net.state_dict()
            state = {key: value for key, value in state.items() if "_extra_state" not in key}
            try:
                own = (self.make_net, net, method, state, self.training)
                self.identities[name] = identity(data, self.problem.labels, *own)
            except Exception as error:  # whatever pickling one's objects may raise
                raise ValueError(f"store= needs a pickle of model, method and data to know a run by: {error}") from None

    def _net(self, seed: int) -> tuple[Module, Call]:
        """The user's model with parameters from the seed, and how it is called."""
        torch.manual_seed(derive(seed, 3))
        net = self.make_net()
        if not isinstance(net, Module):
            raise TypeError(f"make_net must return a torch.nn.Module, got {type(net).__name__}")
        if net is self.make_net():
            raise ValueError("make_net must build a new model on every call, but returned the same one twice")
        net, call = net.to(str(self.problem.labels.device)), way_to_call(net)
        self._look_at(net, call)
        return net, call

    def learner(self, method: str, seed: int) -> OwnLearner:
        """The user's model under a method."""
        net, call = self._net(seed)
        draws = generator(seed, 4, device=str(self.problem.labels.device))
        context = Context(draws, self.problem.density, self.problem.task.name, self.training.pool or "none")
        learner = OwnLearner(self.methods[method].around(net, context), draws, self.methods[method], call)
        torch.manual_seed(derive(seed, 6))  # what the model itself draws, dropout say, is the same for all methods
        return learner

    def _look_at(self, net: Module, call: Call) -> None:
        """One pass of the untouched model: it makes lazy parameters, and the first one tells the task."""
        step = self._first_step
        with torch.no_grad():
            outputs = call(net.eval(), step.data)
        count, what = (len(step.labels), "graphs") if step.rows is None else (len(self.problem.labels), "nodes")
        if outputs.shape[0] != count:
            raise ValueError(f"the model must return a row of outputs for each of {count} {what}, got {outputs.shape}")
        if not self.problem.task.name:
            outputs = outputs if step.rows is None else outputs[step.rows]
            self.problem = with_task(self.problem, self.training, outputs, step.labels)

    @cached_property
    def _first_step(self) -> Step:
        batches = batches_of(self.problem, self.problem.split(0), self.plan(Job("", 0)), 0, by_rows=False)
        return next(iter(batches.training(0)))

    def outcomes(self, jobs: Sequence[Job], workers: int, notes: list[str]) -> Iterator[Outcome[Job, RunRecord]]:
        """Finished runs and failures as they come; a note says why there are no other processes."""
        if workers > 1:
            with tempfile.TemporaryDirectory(prefix="rade-") as folder:
                path = Path(folder) / "work"  # so that the data travels once, and not with every job
                try:
                    path.write_bytes(cloudpickle.dumps(self))
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    why = " ".join(str(error).split())
                    notes.append(f"the runs went one after another in this process, others could not read them ({why})")
                    warnings.warn(notes[-1], stacklevel=outside())
                else:
                    yield from run_all(partial(_perform, str(path)), jobs, workers=workers)
                    return
        yield from (attempt(self, job) for job in jobs)


def _perform(path: str, job: Job) -> RunRecord:
    """Do a job in another process."""
    return _read(path)(job)


@lru_cache(maxsize=1)
def _read(path: str) -> Work:
    found: Work = cloudpickle.loads(Path(path).read_bytes())
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in the same order however many processes there are, and no fight for cores between them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
