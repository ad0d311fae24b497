"""Saving the whole state of a run while it goes on, and continuing from it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from rade.train.errors import Interrupted, RunError
from rade.train.files import load_tensors, save_tensors
from rade.train.loop import Trainee
from rade.train.matching import check_alike, check_dicts, check_optimizer, same_key, same_settings
from rade.train.process import Solo

StopAsked = Callable[[], bool]


def never() -> bool:
    """Nobody asks to stop."""
    return False


@dataclass(frozen=True)
class Keeping:
    """How a run is kept safe while it goes on.

    Attributes:
        every: epochs between checkpoints.
        stop_asked: whether somebody wants the run to save its state and stop; asked after every epoch.
        process: this process among those that train together.
    """

    every: int = 50
    stop_asked: StopAsked = never
    process: Solo = field(default_factory=Solo)


@dataclass
class Checkpoint:
    """The state of one run in one file, renewed as `keeping` says and when somebody asks to stop."""

    path: Path
    settings: dict[str, Any]
    key: str  # of the run, which also knows what is no setting: a method's own defaults, the data, the code's numbers
    keeping: Keeping

    @property
    def process(self) -> Solo:
        """This process among those that train together."""
        return self.keeping.process

    def restore(self, trainee: Trainee) -> None:
        """Continue from the file, if there is one."""
        if not self.path.exists():
            return
        state = load_tensors(self.path)
        try:
            settings, generators, whole = state["settings"], state["generators"], state["trainee"]
            writers = len(generators)
            same_settings(settings, self.settings, self.path)
            if writers == self.process.world:
                same_key(state.get("key", self.key), self.key, self.path)  # one from before keys were kept is believed
                self._continue(trainee, whole, generators[self.process.rank])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError):
            raise RunError(f"{self.path} is not a checkpoint of rade; delete it to start this run afresh") from None
        if writers != self.process.world:
            raise RunError(f"{self.path} was written by {writers} processes; resume with as many")

    def _continue(self, trainee: Trainee, state: dict[str, Any], generator: Tensor) -> None:
        """Take the saved state, once it is known to fit."""
        check_dicts(state)
        check_dicts(*state.values())
        check_optimizer(state["optimizer"], trainee.optimizer)
        check_alike(state["schedule"], trainee.schedule.state_dict())
        trainee.load_state_dict(state)
        trainee.learner.generator.set_state(generator)

    def __call__(self, trainee: Trainee) -> None:
        """After an epoch: save if it is time, and stop here if somebody asked."""
        stop = self.process.total(float(self.keeping.stop_asked())) > 0
        if stop or trainee.progress.epoch % self.keeping.every == 0:
            self.save(trainee)
        if stop:
            raise Interrupted(f"stopped after epoch {trainee.progress.epoch}, state saved in {self.path}")

    def save(self, trainee: Trainee) -> None:
        """Write the state; the first process writes for all."""
        generators = self.process.collect(trainee.learner.generator.get_state())
        if self.process.rank == 0:
            whole = {"generators": generators, "trainee": trainee.state_dict()}
            state = {"settings": self.settings, "key": self.key, **whole}
            save_tensors(self.path, state)
