"""What every way of running a grid has in common: jobs go in, events come out."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from rade.errors import RadeError
from rade.experiment.jobs import Job
from rade.train.checkpoint import StopAsked
from rade.train.errors import Interrupted

Kind = Literal["started", "epoch", "done", "failed", "lost", "stopped"]
# Processes that may die over one job before it is given up.
TRIES = 3


@dataclass(frozen=True)
class Event:
    """What happened to a job; value: its epoch, its result, or the reason."""

    kind: Kind
    job: Job
    value: Any = None


class Action(Protocol):
    """What is done with a job; told to stop, it raises `Interrupted` with its state saved."""

    def __call__(self, job: Job, observe: Callable[[int], None], stop_asked: StopAsked) -> Any:
        """The result of the job."""
        ...


class Engine(Protocol):
    """Does jobs side by side. One that fails is an event, not an exception."""

    @property
    def workers(self) -> int:
        """How many jobs run at a time, as far as is known."""
        ...

    def run(self, jobs: Iterator[Job], action: Action, stop_asked: StopAsked) -> Iterator[Event]:
        """Take a job whenever there is room for one, until there are none or somebody asks to stop."""
        ...

    def close(self) -> None:
        """Let go of what was started."""
        ...


def attempt(job: Job, action: Action, observe: Callable[[int], None], stop_asked: StopAsked) -> Event:
    """Do a job and turn its end, whatever it is, into an event."""
    try:
        return Event("done", job, action(job, observe, stop_asked))
    except Interrupted as stopped:
        return Event("stopped", job, str(stopped))
    except RadeError as error:
        return Event("failed", job, " ".join(str(error).split()))
    except MemoryError:
        return Event("failed", job, "there is not enough memory for it")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())
        return Event("failed", job, f"{type(error).__name__}: {message} ({Path(last.filename).name}:{last.lineno})")
