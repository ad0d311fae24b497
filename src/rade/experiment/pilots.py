"""Pilots: a few epochs of each kind of run, timed before a grid, for some seconds at most, and remembered."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rade.errors import RadeError
from rade.experiment.engine import Engine
from rade.experiment.estimate import Timed
from rade.experiment.jobs import Job
from rade.experiment.work import Place, Trial
from rade.train.checkpoint import StopAsked
from rade.train.files import save_json
from rade.train.record import commit, machine, versions

# Seconds after which no pilot is waited for: a plan is wanted now, and sizes tell the rest roughly. Processes that
# have yet to start, which on a busy machine takes long, are waited for longer.
PATIENCE, START = 15.0, 60.0


class _TimeUp(Exception):
    """Raised where an engine asks whether to stop, so that what is under way is dropped, not waited for."""


@dataclass(frozen=True)
class Notebook:
    """The file beside a store in which pilots are kept; those of another commit or kind of machine do not count.

    Beside it, since a dry run must not make a store. Where it cannot be written nothing is lost but time.
    """

    path: Path
    threads: int

    @staticmethod
    def beside(place: Place) -> "Notebook":
        """That of a store."""
        return Notebook(place.store.with_name(f".{place.store.name}.pilots.json"), place.threads)

    def read(self) -> list[Timed]:
        """What is written there; nothing where the file is missing, damaged or not ours."""
        try:
            found = json.loads(self.path.read_text("utf-8"))
            if found["made"] != self._made():
                return []
            return [Timed(dict(one["settings"]), float(one["seconds"])) for one in found["pilots"]]
        except (OSError, ValueError, LookupError, TypeError):
            return []

    def write(self, pilots: Sequence[Timed]) -> None:
        """Keep these, if there is a folder to keep them in: a plan makes none."""
        if not self.path.parent.is_dir():
            return
        with suppress(RadeError):
            save_json(self.path, {"made": self._made(), "pilots": [asdict(pilot) for pilot in pilots]})

    def _made(self) -> dict[str, object]:
        made = {"commit": commit()[0], "versions": dict(versions()), "machine": dict(machine())}
        return {**made, "threads": self.threads}


def fly(
    jobs: Sequence[Job], engine: Engine, place: Place, stop_asked: StopAsked, told: Callable[[Job, float], None]
) -> list[Timed]:
    """Time a few epochs of each job until `PATIENCE` is over; one that fails here will tell why when it is run."""
    found: list[Timed] = []
    begun = time.monotonic()
    until = begun + START

    def stop() -> bool:
        if time.monotonic() > until:
            raise _TimeUp
        return stop_asked()

    with suppress(_TimeUp):
        for event in engine.run(iter(jobs), Trial(place), stop):
            if event.kind != "started" and until == begun + START:  # the first sign of work
                until = time.monotonic() + PATIENCE
            if event.kind == "done":
                found.append(Timed(event.job.settings.model_dump(mode="json"), event.value))
                told(event.job, event.value)
    return found
