"""The training loop: the same for every task, every way of batching and every method."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR

from rade.errors import Diverged
from rade.train.batches import Batches
from rade.train.learner import Learner
from rade.train.process import collect, world
from rade.train.settings import Plan
from rade.train.tasks import Outputs, Task

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
Schedule = LambdaLR | StepLR | ReduceLROnPlateau
SCHEDULES: dict[str, Callable[[Optimizer], Schedule]] = {
    "constant": lambda optimizer: LambdaLR(optimizer, lambda epoch: 1.0),
    # GIN's protocol for the TU sets: half the rate every 50 epochs.
    "step": lambda optimizer: StepLR(optimizer, step_size=50, gamma=0.5),
    # The long-range benchmark's: half the rate after 20 epochs without a lower validation loss.
    "plateau": lambda optimizer: ReduceLROnPlateau(optimizer, factor=0.5, patience=20, min_lr=1e-5),
}


@dataclass
class Progress:
    """Epochs done, the best of them, and the curves. Test scores are looked at only where validation improves."""

    epoch: int = 0
    best_epoch: int = 0
    best_val: float = -math.inf
    best_test: float = -math.inf
    best_state: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def record(self, seconds: float, **values: float) -> None:
        """Append one epoch to the curves."""
        self.epoch += 1
        self.seconds.append(seconds)
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)

    @property
    def last(self) -> dict[str, float]:
        """The values of the last epoch."""
        return {name: values[-1] for name, values in self.history.items()}

    def state_dict(self) -> dict[str, Any]:
        """All fields, as plain values."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from saved fields."""
        vars(self).update(vars(Progress(**state)))

    def over(self, plan: Plan) -> bool:
        """Whether training ends here: after all epochs, or `patience` of them without a better validation score."""
        return self.epoch >= plan.epochs or 0 < plan.patience <= self.epoch - self.best_epoch


@dataclass(frozen=True)
class Trainee:
    """What training changes: the learner, its optimizer, its schedule, and the record of progress."""

    learner: Learner
    optimizer: Optimizer
    schedule: Schedule
    progress: Progress

    @staticmethod
    def of(learner: Learner, plan: Plan) -> "Trainee":
        """Before the first epoch."""
        optimizer = OPTIMIZERS[plan.optimizer](learner.parameters(), lr=plan.lr, weight_decay=plan.weight_decay)
        return Trainee(learner, optimizer, SCHEDULES[plan.schedule](optimizer), Progress())

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as tensors and plain values."""
        return {name: part.state_dict() for name, part in vars(self).items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        for name, part in vars(self).items():
            part.load_state_dict(state[name])


def fit(
    trainee: Trainee, batches: Batches, task: Task, plan: Plan, after_epoch: Callable[[Trainee], None]
) -> Progress:
    """Train as long as the plan says; the test score is the one at the best validation epoch."""
    learner, optimizer, progress = trainee.learner, trainee.optimizer, trainee.progress
    model = DistributedDataParallel(learner) if world() > 1 else learner  # gradients of the whole batch
    while not progress.over(plan):
        started = perf_counter()
        learner.train()
        losses, logits = [], None
        for step in batches.training(progress.epoch):
            optimizer.zero_grad()
            outputs = model(step)
            loss = (task.loss(outputs, step.labels) + learner.penalty(step, outputs)) * step.weight
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # The rates follow the gradient that the step has just used, at the parameters it has just set.
            if learner.adapts_after(step.last):
                logits = learner.adapt(step, lambda logits: task.loss(logits, step.labels))  # noqa: B023 - called at once
            losses.append(float(loss.detach()))
        learner.eval()
        scores = close_epoch(trainee, task, batches.evaluation(learner, logits), batches.free)
        loss_mean = sum(collect(sum(losses))) / (len(losses) * world())
        _check_finite(progress.epoch + 1, {"loss": loss_mean, **scores})
        progress.record(perf_counter() - started, loss=loss_mean, **scores)
        after_epoch(trainee)
    return progress


def _check_finite(epoch: int, values: dict[str, float]) -> None:
    names = {"val": "validation score", "val_loss": "validation loss"}
    for name, value in values.items():
        if not math.isfinite(value):
            raise Diverged(f"the {names.get(name, name)} became {value} in epoch {epoch}; a smaller --lr may help")


def close_epoch(
    trainee: Trainee, task: Task, outputs: Callable[[str], Outputs], free: tuple[str, ...]
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
    if isinstance(trainee.schedule, ReduceLROnPlateau):
        trainee.schedule.step(val_loss)
    else:
        trainee.schedule.step()
    curves = {part: task.metric(*outputs(part)) for part in free}
    return {"val": val, "val_loss": val_loss, **curves, "p": float(learner.rates.p), "q": float(learner.rates.q)}
