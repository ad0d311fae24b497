"""Learning-rate schedules, all advanced once per epoch with the validation loss."""

from collections.abc import Callable
from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR


class Schedule(Protocol):
    """A learning rate that may change after each epoch."""

    def advance(self, loss: float) -> None:
        """An epoch has ended with this validation loss."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        ...


class Unchanged:
    """The same rate throughout."""

    def __init__(self, optimizer: Optimizer) -> None:
        pass

    def advance(self, loss: float) -> None:
        """Nothing changes."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing to save."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


class Step(StepLR):
    """Half the rate every 50 epochs (GIN's protocol for the TU sets)."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, step_size=50, gamma=0.5)

    def advance(self, loss: float) -> None:
        self.step()


class Plateau(ReduceLROnPlateau):
    """Half the rate after 20 epochs without a lower validation loss (the long-range benchmark's protocol)."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, factor=0.5, patience=20, min_lr=1e-5)

    def advance(self, loss: float) -> None:
        """Compare the loss with the best so far."""
        self.step(loss)


SCHEDULES: dict[str, Callable[[Optimizer], Schedule]] = {"constant": Unchanged, "step": Step, "plateau": Plateau}
