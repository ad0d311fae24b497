"""One run: train, keep checkpoints on the way, leave a model and a result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from rade.data import Dataset
from rade.errors import Interrupted, RunError
from rade.train.batches import batches_of
from rade.train.files import ensure_writable, load_run_record, load_tensors, save_bytes, save_tensors
from rade.train.learner import Learner
from rade.train.loop import Progress, Trainee, fit
from rade.train.model import Trained
from rade.train.process import collect, rank, world
from rade.train.record import NUMERICS, RunRecord, provenance, run_key
from rade.train.settings import Plan, Settings
from rade.train.tasks import Problem, problem_of

Observer = Callable[[Progress], None]
StopAsked = Callable[[], bool]
REPEAT = "repeat those settings, choose another folder with --out, or replace the earlier results with --overwrite"


@dataclass(frozen=True)
class Keeping:
    """How a run is kept safe while it goes on: its whole state in one file.

    Attributes:
        every: epochs between checkpoints.
        stop_asked: whether somebody wants the run to save its state and stop; asked after every epoch.
        checkpoint: the file, from which a run continues if it is there; without one nothing is kept.
    """

    every: int = 50
    stop_asked: StopAsked = lambda: False
    checkpoint: Path | None = None

    def restore(self, trainee: Trainee, made: Mapping[str, Any]) -> None:
        """Continue from the file; made: the run's settings and its key, which also knows the data."""
        path = self.checkpoint
        if path is None or not path.exists():
            return
        state = load_tensors(path)
        try:
            same_run(path, state, made)
            trainee.load_state_dict(state["trainee"])
            trainee.learner.generator.set_state(state["generators"][rank()])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError):
            raise RunError(f"{path} is not a checkpoint of rade; delete it to start this run afresh") from None

    def after_epoch(self, trainee: Trainee, made: Mapping[str, Any]) -> None:
        """Save if it is time, and stop here if somebody asked."""
        stop = any(collect(self.stop_asked()))
        if stop or trainee.progress.epoch % self.every == 0:
            self.save(trainee, made)
        if stop:
            saved = "" if self.checkpoint is None else f", state saved in {self.checkpoint}"
            raise Interrupted(f"stopped after epoch {trainee.progress.epoch}{saved}")

    def save(self, trainee: Trainee, made: Mapping[str, Any]) -> None:
        """Write the state; the first process writes for all."""
        if self.checkpoint is None:
            return
        generators = collect(trainee.learner.generator.get_state())
        if rank() == 0:
            save_tensors(self.checkpoint, {**made, "generators": generators, "trainee": trainee.state_dict()})


def train(
    problem: Problem,
    learner: Learner,
    plan: Plan,
    run: int,
    *,
    keeping: Keeping = Keeping(),  # noqa: B008 - a frozen value
    observe: Observer = lambda progress: None,
) -> RunRecord:
    """Train run number `run` of a plan; the learner is left at its best epoch.

    Only the record's `timing` differs between two runs of the same plan on the same machine.
    """
    made = made_with(plan, run, problem, world())
    batches = batches_of(problem, problem.split(run), plan, plan.seed + run, learner.by_rows)
    trainee = Trainee.of(learner, plan)
    keeping.restore(trainee, made)

    def after_epoch(trainee: Trainee) -> None:
        observe(trainee.progress)
        keeping.after_epoch(trainee, made)

    progress = fit(trainee, batches, problem.task, plan, after_epoch)
    # Killed from here on, the run is still known as unfinished and ends when it is resumed.
    keeping.save(trainee, made)
    record = _record(problem, plan, run, trainee, made)
    learner.load_state_dict(progress.best_state)
    return record


def made_with(plan: Plan, run: int, problem: Problem, processes: int) -> dict[str, Any]:
    """The settings of a run and its key, by which it recognises files of others."""
    return {"settings": plan.model_dump(mode="json"), "key": run_key(plan, run, problem.origin, processes)}


def _record(problem: Problem, plan: Plan, run: int, trainee: Trainee, made: Mapping[str, Any]) -> RunRecord:
    progress, made_by = trainee.progress, provenance()
    skipped = [int(value) for name, value in trainee.learner.named_buffers() if name.endswith(".skipped")]
    values = {
        **made,
        "numerics": NUMERICS,
        "protocol": plan.protocol,
        "run": run,
        "seed": plan.seed + run,
        "metric": problem.metric,
        "folds": problem.folds,
        "val": progress.best_val,
        "test": progress.best_test,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "history": progress.history,
        "skipped": sum(skipped),  # rate steps that were not finite and therefore not taken
        "timing": {
            "seconds": sum(progress.seconds),
            "seconds_per_epoch": sum(progress.seconds) / len(progress.seconds),
            "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        },
        **made_by,
        "machine": {**made_by["machine"], "processes": world()},
        "threads": torch.get_num_threads(),
        "data": dict(problem.origin),
    }
    return RunRecord.model_validate(values)


def train_run(
    dataset: Dataset,
    settings: Settings,
    run: int,
    folder: Path,
    *,
    resume: bool = False,
    observe: Observer = lambda progress: None,
    keeping: Keeping = Keeping(),  # noqa: B008 - a frozen value
) -> RunRecord:
    """Train run number `run` (seed `settings.seed + run`) into `folder` and return the content of its `result.json`.

    With `resume` a finished run is not repeated, and an unfinished one continues to the numbers it would have had.
    """
    problem, checkpoint = problem_of(dataset, settings), folder / "checkpoint.pt"
    done = finished(folder, settings, run, problem) if resume else None
    if done is not None:
        return done
    if rank() == 0:
        ensure_writable(folder)
        # A result that is there stays until this run has one; of an earlier checkpoint nothing is needed.
        if not resume:
            checkpoint.unlink(missing_ok=True)
    collect(None)  # the other processes do not look for it before
    trained = Trained.fresh(dataset, settings, settings.seed + run)
    keeping = replace(keeping, checkpoint=checkpoint)
    record = train(problem, trained.learner, settings, run, keeping=keeping, observe=observe)
    record = record.model_copy(update={"command": settings.command(run, record.threads)})
    if rank() == 0:
        trained.save(folder / "model.pt")
        save_bytes(folder / "result.json", record.to_json().encode())
        checkpoint.unlink(missing_ok=True)
    return record


def load_run(folder: str | Path) -> Trained:
    """The trained model of a finished run, from the folder that `train_run` or `rade train` wrote."""
    return Trained.load(Path(folder) / "model.pt")


def finished(folder: Path, settings: Settings, run: int, problem: Problem) -> RunRecord | None:
    """The result of a finished run with these settings, by any number of processes; None if it is still to be done.

    A result of other settings is an error, unless a checkpoint beside it tells that its replacement is under way.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    result = load_run_record(path)
    made = made_with(settings, run, problem, result.machine.get("processes", 1))
    if result.key != made["key"] and (folder / "checkpoint.pt").exists():
        return None
    same_run(path, vars(result), made)
    return result


def refuse_to_lose(folder: Path, settings: Settings, run: int, problem: Problem) -> None:
    """Stop before earlier files are replaced, unless the run is finished and would only be repeated."""
    if (folder / "checkpoint.pt").exists():
        raise RunError(f"{folder} holds an unfinished run; --resume continues it, --overwrite starts it over")
    finished(folder, settings, run, problem)


def same_run(path: Path, saved: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    """Refuse to mix what different settings made, or equal ones with other data, defaults or numerics."""
    if saved["key"] == made["key"]:
        return
    there, here = ({**one["settings"], **one["settings"]["options"]} for one in (saved, made))
    for name in here:
        if name != "options" and name in there and there[name] != here[name]:
            raise RunError(f"{path} was made with {name} = {there[name]!r}, not {here[name]!r}; {REPEAT}")
    raise RunError(
        f"{path} has these settings, but was made from other data, by another number of processes, with other defaults "
        "of its method or by another numerical version of rade; --overwrite makes it anew, --out chooses another folder"
    )
