"""Saving the whole state of a run while it goes on, and continuing from it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rade.train.errors import Interrupted, RunError
from rade.train.files import load_tensors, save_tensors
from rade.train.loop import Trainee
from rade.train.process import Solo
from rade.train.settings import Settings

StopAsked = Callable[[], bool]


def never() -> bool:
    """Nobody asks to stop."""
    return False


@dataclass
class Checkpoint:
    """The state of one run in one file, renewed every `every` epochs and when somebody asks to stop."""

    path: Path
    settings: dict[str, Any]
    every: int
    process: Solo = field(default_factory=Solo)
    stop_asked: StopAsked = never

    def restore(self, trainee: Trainee) -> None:
        """Continue from the file, if there is one."""
        if not self.path.exists():
            return
        state = load_tensors(self.path)
        try:
            settings, generators, whole = state["settings"], state["generators"], state["trainee"]
        except (KeyError, TypeError):
            raise RunError(f"{self.path} is not a checkpoint of rade; delete it to start this run afresh") from None
        same_settings(settings, self.settings, self.path)
        if len(generators) != self.process.world:
            raise RunError(f"{self.path} was written by {len(generators)} processes; resume with as many")
        trainee.load_state_dict(whole)
        trainee.learner.generator.set_state(generators[self.process.rank])

    def __call__(self, trainee: Trainee) -> None:
        """After an epoch: save if it is time, and stop here if somebody asked."""
        stop = self.process.total(float(self.stop_asked())) > 0
        if stop or trainee.progress.epoch % self.every == 0:
            self.save(trainee)
        if stop:
            raise Interrupted(f"stopped after epoch {trainee.progress.epoch}, state saved in {self.path}")

    def save(self, trainee: Trainee) -> None:
        """Write the state; the first process writes for all."""
        generators = self.process.collect(trainee.learner.generator.get_state())
        if self.process.rank == 0:
            state = {"settings": self.settings, "generators": generators, "trainee": trainee.state_dict()}
            save_tensors(self.path, state)


REPEAT = "repeat those settings or choose another folder with --out"


def same_settings(saved: dict[str, Any], wanted: dict[str, Any], path: Path, advice: str = REPEAT) -> None:
    """Refuse to mix the results of different settings; a file from before a setting was there has its default."""
    known = Settings.model_fields.items()
    optional = {name: field.default for name, field in known if not field.is_required() and not field.exclude}
    there, here = _flat(optional | saved), _flat(wanted)
    for name in {**here, **there}:
        if there.get(name) != here.get(name):
            raise RunError(f"{path} was made with {name} = {there.get(name)!r}, not {here.get(name)!r}; {advice}")


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with those of the method beside them."""
    return {**{name: value for name, value in settings.items() if name != "options"}, **settings.get("options", {})}


@contextmanager
def stop_on_interrupt() -> Iterator[StopAsked]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop after the epoch; a second Ctrl-C acts at once."""
    asked = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
