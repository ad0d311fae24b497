"""Runs that failed, kept beside those that finished, so that a report can say what is missing and why."""

from datetime import datetime, timezone
from pathlib import Path

from rade.experiment.jobs import Job
from rade.experiment.store import Store
from rade.train.command import repeat_command
from rade.train.files import remove, save_record
from rade.train.record import NUMERICS, commit

FOLDER = "failures"
FORMAT = 1


def path_of(store: Store, key: str) -> Path:
    """The file of a failed run."""
    return store.folder / FOLDER / f"{key}.json"


def note(store: Store, job: Job, reason: str, threads: int) -> None:
    """Record a failure; a later one of the same run takes its place."""
    revision, dirty = commit()
    record = {
        "format": FORMAT,
        "key": job.key,
        "numerics": NUMERICS,
        "settings": job.settings.model_dump(mode="json"),
        "protocol": job.settings.protocol,
        "run": job.run,
        "reason": reason,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": revision,
        "dirty": dirty,
        "command": repeat_command(job.settings, job.run, threads),
    }
    save_record(path_of(store, job.key), record)


def forget(store: Store, key: str) -> None:
    """A run that finished after all has not failed."""
    remove(path_of(store, key))
