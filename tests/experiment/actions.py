"""Actions for the engines' tests, in a module that other processes can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from rade.train.errors import Interrupted, RunError


@dataclass(frozen=True)
class Kill:
    """Dies on the run of this number, `deaths` times; leaves a mark for every attempt at any run."""

    folder: Path
    run: int
    deaths: int

    def __call__(self, job, observe, stop_asked):
        attempts = len(list(self.folder.glob(f"{job.run}-*")))
        (self.folder / f"{job.run}-{attempts}").touch()
        if job.run == self.run and attempts < self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return job.run


@dataclass(frozen=True)
class Fail:
    """Raises on runs 1 and 2, each in its own way."""

    def __call__(self, job, observe, stop_asked):
        if job.run == 1:
            raise RunError("it cannot\nbe done")
        if job.run == 2:
            raise ZeroDivisionError("by nothing")
        return job.run


@dataclass(frozen=True)
class Wait:
    """Runs until it is asked to stop, telling its epochs."""

    def __call__(self, job, observe, stop_asked):
        for epoch in range(10000):
            observe(epoch)
            if stop_asked():
                raise Interrupted("saved")
            time.sleep(0.01)


@dataclass(frozen=True)
class Slow:
    """Takes long enough to be killed in its midst; leaves a mark when it begins and when it has ended."""

    folder: Path
    seconds: float

    def __call__(self, job, observe, stop_asked):
        (self.folder / f"begun-{job.run}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        (self.folder / f"ended-{job.run}-{os.getpid()}").touch()
        return job.run
