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
        """Continue from saved fields."""
        for item in fields(self):
            setattr(self, item.name, state[item.name])


@dataclass(frozen=True)
class Stopping:
    """When to end: after `epochs`, or after `patience` epochs without a better validation score (0: never early)."""

    epochs: int
    patience: int

    def reached(self, progress: Progress) -> bool:
        """Whether training ends here."""
        waited = progress.epoch - progress.best_epoch
        return progress.epoch >= self.epochs or (self.patience > 0 and waited >= self.patience)
