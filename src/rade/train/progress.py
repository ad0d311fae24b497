"""What a run has achieved so far."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any


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
        """Continue from saved fields; ValueError if they cannot be those of a run."""
        saved = Progress(**{item.name: state[item.name] for item in fields(self)})
        saved.check()
        vars(self).update(vars(saved))

    def check(self) -> None:
        """Refuse what no run records: other kinds of values, curves of other lengths, epochs that were not."""
        curves = [self.seconds, *self.history.values()]
        numbers = [self.best_val, self.best_test, *(value for curve in curves for value in curve)]
        sound = (
            all(type(value) is int for value in (self.epoch, self.best_epoch))
            and 0 <= self.best_epoch <= self.epoch
            and all(isinstance(curve, list) and len(curve) == self.epoch for curve in curves)
            and all(type(value) is float for value in numbers)
            and all(math.isfinite(value) for value in numbers if self.epoch > 0)
            and isinstance(self.best_state, dict)
        )
        if not sound:
            raise ValueError("these are not the records of a run")


@dataclass(frozen=True)
class Stopping:
    """When to end: after `epochs`, or after `patience` epochs without a better validation score (0: never early)."""

    epochs: int
    patience: int

    def reached(self, progress: Progress) -> bool:
        """Whether training ends here."""
        waited = progress.epoch - progress.best_epoch
        return progress.epoch >= self.epochs or (self.patience > 0 and waited >= self.patience)
