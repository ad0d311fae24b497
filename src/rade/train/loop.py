"""The training loop: the same for every task, every way of batching and every method."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import isfinite
from time import perf_counter
from typing import Any

from torch.optim import Optimizer

from rade.augment import Labelled, Learner
from rade.train.errors import Diverged
from rade.train.process import Solo
from rade.train.progress import Progress, Stopping
from rade.train.schedule import Schedule
from rade.train.steps import Batches, Outputs
from rade.train.task import Task


@dataclass(frozen=True)
class Trainee:
    """What training changes: the learner, its optimizer, its schedule, and the record of progress."""

    learner: Learner
    optimizer: Optimizer
    schedule: Schedule
    progress: Progress

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as tensors and plain values."""
        return {name: part.state_dict() for name, part in vars(self).items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        for name, part in vars(self).items():
            part.load_state_dict(state[name])


def fit(
    trainee: Trainee,
    batches: Batches,
    task: Task,
    stopping: Stopping,
    process: Solo,
    after_epoch: Callable[[Trainee], None],
) -> Progress:
    """Train until `stopping`; the test score is the one at the best validation epoch."""
    learner, optimizer, progress = trainee.learner, trainee.optimizer, trainee.progress
    model = process.wrap(learner)
    while not stopping.reached(progress):
        started = perf_counter()
        learner.train()
        losses, logits = [], None
        for batch in batches.training(progress.epoch):
            optimizer.zero_grad()
            loss = batch.loss(task.loss, model(*batch.inputs)) * batch.weight
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # The rates follow the gradient that the step has just used, at the parameters it has just set.
            if learner.adapts_after(batch.last):
                labelled = Labelled(batch.rows, batch.known, partial(batch.loss, task.loss), batch.weight)
                logits = learner.adapt(*batch.inputs, labelled)
            losses.append(float(loss.detach()))
        learner.eval()
        scores = judge(trainee, task, batches.evaluation(learner, logits), batches.free)
        loss_mean = process.total(sum(losses)) / (len(losses) * process.world)
        _check_finite(progress.epoch + 1, {"loss": loss_mean, **scores})
        progress.record(perf_counter() - started, loss=loss_mean, **scores)
        after_epoch(trainee)
    return progress


def _check_finite(epoch: int, values: dict[str, float]) -> None:
    names = {"val": "validation score", "val_loss": "validation loss"}
    for name, value in values.items():
        if not isfinite(value):
            raise Diverged(f"the {names.get(name, name)} became {value} in epoch {epoch}; a smaller --lr may help")


def judge(
    trainee: Trainee, task: Task, outputs: Callable[[str], Outputs], free: Iterable[str] = ()
) -> dict[str, float]:
    """Score the epoch on the validation part, note it if it is the best so far, and advance the schedule.

    The parts that are `free` get a curve too; nothing is selected by them.
    """
    learner, progress = trainee.learner, trainee.progress
    logits, labels = outputs("val")
    val, val_loss = task.metric(logits, labels), float(task.loss(logits, labels))
    if val > progress.best_val:
        progress.best_epoch, progress.best_val = progress.epoch + 1, val
        progress.best_test = task.metric(*outputs("test"))
        progress.best_state = deepcopy(learner.state_dict())
    trainee.schedule.advance(val_loss)
    curves = {part: task.metric(*outputs(part)) for part in free}
    return {"val": val, "val_loss": val_loss, **curves, "p": float(learner.rates.p), "q": float(learner.rates.q)}
