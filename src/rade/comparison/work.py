"""The work of a comparison: a model of the user's under each method, trained run by run, and what decides it.

What decides it is a hash: of a pickle, which holds the code and the values of everything that is one's own.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch.nn import Module

from rade.comparison.problems import Training, with_task
from rade.errors import outside
from rade.experiment.grid import Outcome, processes, run_here
from rade.train.batches import batches_of
from rade.train.learner import Call, Context, Method, OwnLearner, Step, way_to_call
from rade.train.record import RunRecord
from rade.train.run import train
from rade.train.settings import Plan
from rade.train.tasks import Problem, derive, generator

PYGS_FILES = re.compile(rb"_(propagate|edge_updater)_\w{8}\.py")  # that it writes for a class, in this process alone
INSTALLED = ("site-packages", "dist-packages", sysconfig.get_path("stdlib"))
# Of a function's code all but its place in a file.
CODE = (
    "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_flags",
)  # fmt: skip


class Job(NamedTuple):
    """A run of a comparison; identity: what else decides it, where a store wants to know."""

    method: str
    seed: int
    identity: str = ""


@dataclass(eq=False)
class Work:
    """All that decides the runs of a comparison; it travels to other processes whole."""

    make_net: Callable[[], Module]
    problem: Problem
    methods: dict[str, Method]
    training: Training

    def rehearse(self) -> None:
        """One step of every method, so that what cannot work says so before training; it also tells the task."""
        for name in self.methods:
            try:
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
        torch.set_num_threads(1)  # sums in the same order however many processes there are, which share the cores
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return train(self.problem, self.learner(job.method, job.seed), self.plan(job), job.seed)

    def plan(self, job: Job) -> Plan:
        """How a job is trained."""
        training, whole = self.training, self.problem.level == "node"
        return Plan(
            dataset=self.problem.name,
            backbone=str(getattr(self.make_net, "__name__", type(self.make_net).__name__)),
            method=job.method,
            options={"identity": job.identity} if job.identity else {},
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
        )

    def identities(self) -> dict[str, str]:
        """What decides the runs of each method: data, training, and the model under it as seed 0 begins."""
        found = {}
        try:
            data = identity([data.to_dict() for data in self.problem.graphs], self.problem.labels)
            for name, method in self.methods.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # said in the rehearsal
                    net, state = self._net(0)[0], self.learner(name, 0).net.state_dict()
                state = {key: value for key, value in state.items() if "_extra_state" not in key}
                found[name] = identity(data, self.make_net, net, method, state, self.training)
        except Exception as error:  # whatever pickling one's objects may raise
            raise ValueError(f"store= needs a pickle of model, method and data to know a run by: {error}") from None
        return found

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

    def outcomes(self, jobs: Sequence[Job], workers: int | None, notes: list[str]) -> Iterator[Outcome[Job, RunRecord]]:
        """Finished runs and failures as they come; a note says why there are no other processes."""
        do: Callable[[Job], RunRecord] = self
        with tempfile.TemporaryDirectory(prefix="rade-") as folder:
            if processes(jobs, workers) > 1:
                path = Path(folder) / "work"  # so that the data travels once, and not with every job
                try:
                    path.write_bytes(cloudpickle.dumps(self))
                    do = partial(_perform, str(path))
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    why, workers = " ".join(str(error).split()), 1
                    notes.append(f"the runs went one after another in this process, others could not read them ({why})")
                    warnings.warn(notes[-1], stacklevel=outside())
            yield from run_here(do, jobs, workers)


def _perform(path: str, job: Job) -> RunRecord:
    """Do a job in another process."""
    return _read(path)(job)


@lru_cache(maxsize=1)
def _read(path: str) -> Work:
    found: Work = cloudpickle.loads(Path(path).read_bytes())
    return found


def identity(*parts: Any) -> str:
    """A name of everything in the parts, but for installed packages; the same parts may have another name some day.

    Modules that are not installed are in the pickle with their code, not by their names.
    """
    known, text = cloudpickle.list_registry_pickle_by_value(), io.BytesIO()
    own = [module for name, module in list(sys.modules.items()) if name not in known and _is_own(name, module)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        _Pickler(text).dump(parts)
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return hashlib.sha256(PYGS_FILES.sub(b"", text.getvalue())).hexdigest()


def _is_own(name: str, module: ModuleType) -> bool:
    file = vars(module).get("__file__")
    installed = not file or name.split(".")[0] == "rade" or any(part in file for part in INSTALLED)
    return not installed and module.__name__ == name


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Tensors by their numbers, whose memory has addresses; code without the place in its file."""
        if isinstance(value, torch.Tensor):
            whole = value.detach().cpu().to_dense().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            return tuple, ([value.dtype, value.shape, value.requires_grad, hashlib.sha256(whole).digest()],)
        if isinstance(value, CodeType):
            return tuple, ([getattr(value, name) for name in CODE],)
        found: Any = super().reducer_override(value)
        if isinstance(value, type) and isinstance(found, tuple) and len(found[1]) > 2:
            found = (found[0], found[1][:-2], *found[2:])  # without the number that this process gives the class
        return found
