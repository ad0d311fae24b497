"""One run of a comparison: a model of the user's, trained with one method from one seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import Module

from rade.augment import Context
from rade.comparison.calling import Calling
from rade.comparison.goal import goal, metric_name
from rade.comparison.learner import AnyLearner
from rade.comparison.methods import Named
from rade.comparison.problems import Problem
from rade.comparison.steps import batches_of
from rade.comparison.training import Training
from rade.train.loop import Trainee, fit
from rade.train.process import Solo
from rade.train.progress import Progress, Stopping
from rade.train.schedule import Unchanged
from rade.train.seeds import derive, generator
from rade.train.steps import Step
from rade.train.task import Task


@dataclass(frozen=True)
class Run:
    """How one run ended; scores are those of the epoch with the best validation score.

    Attributes:
        method, seed: which run it is.
        val, test: its scores, as the metric returns them.
        best_epoch, epochs: the epoch of the scores, and the last one.
        p, q: the rates at the end, 0 for methods without.
        seconds: how long it took.
    """

    method: str
    seed: int
    val: float
    test: float
    best_epoch: int
    epochs: int
    p: float
    q: float
    seconds: float

    def asdict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Work:
    """All that decides the runs of a comparison; it travels to other processes whole."""

    make_net: Callable[[], Module]
    problem: Problem
    methods: tuple[Named, ...]
    training: Training

    def rehearse(self) -> str:
        """One step of every method, so that what cannot work says so before training; the name of the score."""
        name = ""
        for method in self.methods:
            try:
                with torch.random.fork_rng(devices=[]):
                    learner, task = self._learner(method, 0)
                    self._step(learner, task)
            except (ValueError, TypeError, RuntimeError) as refusal:
                kind = next(kind for kind in (ValueError, TypeError, RuntimeError) if isinstance(refusal, kind))
                raise kind(f"method {method.name!r}: {' '.join(str(refusal).split())}") from refusal
            name = metric_name(self.training, task)
        return name

    def __call__(self, method: str, seed: int) -> Run:
        """Train; what there is to warn of was said in the rehearsal."""
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner, task = self._learner(self._named(method), seed)
            torch.manual_seed(derive(seed, 6))  # what the model itself draws, dropout say, is the same for all methods
            progress = self._fit(learner, task, seed)
        best = (progress.best_val, progress.best_test, progress.best_epoch, progress.epoch)
        rates = learner.rates
        return Run(method, seed, *best, float(rates.p), float(rates.q), sum(progress.seconds))

    def model(self, method: str, seed: int) -> Module:
        """The model that is trained, as it is before the first step."""
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._learner(self._named(method), seed)[0].net

    def fresh(self, seed: int) -> Module:
        """The user's model with parameters from the seed."""
        torch.manual_seed(derive(seed, 3))
        net = self.make_net()
        if not isinstance(net, Module):
            raise TypeError(f"make_net must return a torch.nn.Module, got {type(net).__name__}")
        if net is self.make_net():
            raise ValueError("make_net must build a new model on every call, but returned the same one twice")
        return net.to(self.problem.labels.device)

    def _named(self, method: str) -> Named:
        return next(one for one in self.methods if one.name == method)

    def _learner(self, method: Named, seed: int) -> tuple[AnyLearner, Task]:
        net = self.fresh(seed)
        calling = Calling.of(net)
        task = self._task(net, calling)
        draws = generator(seed, 4, device=str(self.problem.labels.device))
        context = Context(draws, self.problem.density, task.name, self.training.pool or "none")
        return AnyLearner(method.around(net, context), draws, calling), task

    def _task(self, net: Module, calling: Calling) -> Task:
        """Told from one pass of the untouched model."""
        step = self._first_step()
        data, rows = step.inputs
        with torch.no_grad():
            outputs = calling(net.eval(), data)
        count, what = (len(step.labels), "graphs") if rows is None else (len(self.problem.labels), "nodes")
        if outputs.shape[0] != count:
            raise ValueError(f"the model must return a row of outputs for each of {count} {what}, got {outputs.shape}")
        return goal(self.training, outputs if rows is None else outputs[rows], step.labels)

    def _step(self, learner: AnyLearner, task: Task) -> None:
        step = self._first_step()
        loss = task.loss(learner.train()(*step.inputs), step.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if learner.adapts_after(True):
            step.adapt(learner, lambda logits: task.loss(logits, step.labels))

    def _first_step(self) -> Step:
        return next(iter(batches_of(self.problem, 0, self.training.batch_size).training(0)))

    def _fit(self, learner: AnyLearner, task: Task, seed: int) -> Progress:
        training = self.training
        optimizer = torch.optim.Adam(learner.parameters(), lr=training.lr, weight_decay=training.weight_decay)
        trainee = Trainee(learner, optimizer, Unchanged(optimizer), Progress())
        batches = batches_of(self.problem, seed, training.batch_size)
        return fit(trainee, batches, task, Stopping(training.epochs, training.patience), Solo(), lambda _: None)
