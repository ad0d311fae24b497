"""Jobs on the workers of a Dask scheduler, which may come and go. Needs the extra `cluster`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rade.experiment.engine import Action, Event, attempt
from rade.experiment.jobs import Job
from rade.train.checkpoint import StopAsked, never
from rade.train.errors import RunError

# Seconds to wait for the scheduler's first answer, and between two looks at a request to stop.
_PATIENCE, _TICK = 10, 0.5


@dataclass
class Cluster:
    """A scheduler by its address.

    Dask repeats the job of a lost worker elsewhere, and gives up one that has lost too many (the scheduler's
    `distributed.scheduler.allowed-failures`, 3 by default). What is finished is in the store, whatever happens here.
    """

    address: str

    def __post_init__(self) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise RunError(
                "--scheduler needs the package distributed; install it with pip install 'rade-gnn[cluster]'"
            ) from None
        try:
            self.client: Any = Client(self.address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split())
            raise RunError(
                f"no Dask scheduler answers at {self.address} ({reason}); start one with `dask scheduler`, "
                "or leave --scheduler out"
            ) from None

    @property
    def workers(self) -> int:
        """Workers that are there now, at least one."""
        return max(1, len(self.client.nthreads()))

    def run(self, jobs: Iterator[Job], action: Action, stop_asked: StopAsked) -> Iterator[Event]:
        """One job per worker; those that Dask gives up are tried once more, alone: another may be to blame."""
        suspects = []
        for event in self._round(jobs, action, stop_asked):
            if event.kind == "lost":
                suspects.append(event.job)
            yield event
        for job in suspects:
            for event in self._round(iter([job]), action, stop_asked):
                yield Event("failed", job, event.value) if event.kind == "lost" else event

    def _round(self, jobs: Iterator[Job], action: Action, stop_asked: StopAsked) -> Iterator[Event]:
        running: dict[Any, Job] = {}
        try:
            while True:
                while not stop_asked() and len(running) < self.workers and (job := next(jobs, None)) is not None:
                    running[self.client.submit(attempt, job, action, _nobody, never, pure=False)] = job
                    yield Event("started", job)
                if stop_asked() or not running:
                    break
                for future in self._ended(list(running)):
                    yield self._outcome(future, running.pop(future))
            for job in running.values():
                yield Event("stopped", job)
        finally:
            self.client.cancel(list(running), force=True)

    def close(self) -> None:
        """Leave the scheduler and its workers to others."""
        self.client.close()

    def _ended(self, futures: list[Any]) -> list[Any]:
        """Those that are done; after a moment's rest if there are none."""
        done = [future for future in futures if future.done()]
        if not done:
            time.sleep(_TICK)
        return done

    def _outcome(self, future: Any, job: Job) -> Event:
        from distributed import KilledWorker

        try:
            event: Event = future.result()
        except KilledWorker:
            return Event("lost", job, "every worker that tried it died, as often as the scheduler allows")
        except Exception as error:
            return Event("failed", job, f"Dask lost it: {type(error).__name__}: {' '.join(str(error).split())}")
        finally:
            future.release()
        return event


def _nobody(epoch: int) -> None:
    """Epochs on other machines are not watched."""
