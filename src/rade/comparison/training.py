"""How every method of a comparison is trained: one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import get_args

from torch import Tensor

from rade.control.readout import Pool, Task
from rade.errors import choose

Metric = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True)
class Training:
    """Adam with early stopping on the validation score; the same for all methods of a comparison.

    Attributes:
        lr, weight_decay: those of Adam.
        epochs: the most there are.
        patience: epochs without a better validation score before training stops; 0 for never.
        batch_size: graphs in a step; a single graph is always whole.
        task: what the outputs are; ``"auto"`` tells it from the labels and the number of outputs.
        metric: ``"accuracy"``, ``"micro-f1"``, ``"roc-auc"``, ``"average-precision"``, ``"r2"``, or a function from
            outputs and labels to a number that is better when larger; ``"auto"`` is the task's.
        pool: how the model pools nodes to graphs, ``"sum"`` or ``"mean"``; rates that adapt must know.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 200
    patience: int = 50
    batch_size: int = 32
    task: Task = "auto"
    metric: str | Metric = "auto"
    pool: Pool | None = None

    def __post_init__(self) -> None:
        for names, kind, words in (
            (("lr", "weight_decay"), Real, "a number"),
            (("epochs", "patience", "batch_size"), Integral, "a whole number"),
        ):
            for name in names:
                if not isinstance(getattr(self, name), kind):
                    raise TypeError(f"{name} must be {words}, got {getattr(self, name)!r}")
        if not self.lr > 0 or self.weight_decay < 0:
            raise ValueError(f"lr must be positive and weight_decay not negative, got {self.lr}, {self.weight_decay}")
        if self.epochs < 1 or self.batch_size < 1 or self.patience < 0:
            raise ValueError(
                "epochs and batch_size must be at least 1 and patience at least 0, got "
                f"{self.epochs}, {self.batch_size} and {self.patience}"
            )
        choose("task", self.task, get_args(Task))
        if self.pool is not None:
            choose("pool", self.pool, get_args(Pool))
