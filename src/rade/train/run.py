"""One run: train, keep checkpoints on the way, leave a model and a result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from rade.data import Dataset
from rade.errors import Interrupted, RunError
from rade.train.batches import batches_of
from rade.train.files import ensure_writable, load_run_record, load_tensors, remove, save_tensors, write_whole
from rade.train.learner import Learner
from rade.train.loop import Progress, Trainee, fit
from rade.train.model import Shape, Trained, build_learner, load_model, save_model
from rade.train.process import Solo
from rade.train.record import NUMERICS, RunRecord, commit, key_of, machine, versions
from rade.train.settings import Plan, Settings
from rade.train.stages import Corruption, problem_of
from rade.train.tasks import Problem, quality

Observer = Callable[[Progress], None]
StopAsked = Callable[[], bool]
REPEAT = "repeat those settings or choose another folder with --out"


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
        folder: where checkpoints go; without one there are none.
        resume: whether to continue from the checkpoint that is there.
    """

    every: int = 50
    stop_asked: StopAsked = never
    process: Solo = field(default_factory=Solo)
    folder: Path | None = None
    resume: bool = False


def train(
    problem: Problem,
    make_learner: Callable[[int], Learner],
    plan: Plan,
    run: int,
    *,
    keeping: Keeping = Keeping(),  # noqa: B008 - a frozen value
    observe: Observer = lambda progress: None,
) -> RunRecord:
    """Train run number `run` of a plan; the learner that `make_learner` builds of a seed is left at its best epoch.

    Only the record's `timing` differs between two runs of the same plan on the same machine.
    """
    process, seed = keeping.process, plan.seed + run
    split = problem.split(run)
    learner = make_learner(seed)
    batches = batches_of(problem, split, plan, seed, process, learner.by_rows)
    trainee = Trainee.of(learner, plan)
    checkpoint = Checkpoint(keeping, plan.model_dump(mode="json"), run_key(plan, run, problem.origin, process.world))
    checkpoint.restore(trainee)

    def after_epoch(trainee: Trainee) -> None:
        observe(trainee.progress)
        checkpoint.after_epoch(trainee)

    progress = fit(trainee, batches, problem.task, plan, process, after_epoch)
    # Killed from here on, the run is still known as unfinished and ends when it is resumed.
    checkpoint.save(trainee)
    record = _record(problem, plan, run, trainee, process)
    learner.load_state_dict(progress.best_state)
    return record


def run_key(plan: Plan, run: int, data: Mapping[str, Any], processes: int = 1) -> str:
    """The name under which a run is stored; data: the `origin` of the problem."""
    return key_of(plan.model_dump(mode="json"), plan.all_options, run, data, processes)


def _record(problem: Problem, plan: Plan, run: int, trainee: Trainee, process: Solo) -> RunRecord:
    progress, threads, (revision, dirty) = trainee.progress, torch.get_num_threads(), commit()
    skipped = [int(value) for name, value in trainee.learner.named_buffers() if name.endswith(".skipped")]
    values = {
        "key": run_key(plan, run, problem.origin, process.world),
        "numerics": NUMERICS,
        "settings": plan.model_dump(mode="json"),
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
        "versions": dict(versions()),
        "commit": revision,
        "dirty": dirty,
        "machine": {**machine(), "processes": process.world},
        "threads": threads,
        "command": plan.command(run, threads),
        "data": dict(problem.origin),
    }
    return RunRecord.of(values)


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
    process, problem, shape = keeping.process, problem_of(dataset, settings), Shape.of(dataset)
    done = _finished(folder, settings, run, problem) if resume else None
    if done is not None:
        return done
    if process.rank == 0:
        ensure_writable(folder)
        # A result that is there stays until this run has one; of an earlier checkpoint nothing is needed.
        if not resume:
            remove(folder / "checkpoint.pt")
    learner = build_learner(settings, shape, settings.seed + run, process.rank, dataset)
    keeping = replace(keeping, folder=folder, resume=resume)
    record = train(problem, lambda seed: learner, settings, run, keeping=keeping, observe=observe)
    record = record.model_copy(update=_judged(dataset, problem, settings, run, learner.eval(), process))
    if process.rank == 0:
        save_model(folder / "model.pt", settings, shape, settings.seed + run, learner.state_dict())
        write_whole(folder / "result.json", lambda file: file.write(record.to_json().encode()))
        remove(folder / "checkpoint.pt")
    return record


def load_run(folder: str | Path) -> Trained:
    """The trained model of a finished run, from the folder that `train_run` or `rade train` wrote."""
    return load_model(Path(folder) / "model.pt")


def _judged(
    dataset: Dataset, problem: Problem, settings: Settings, run: int, learner: Learner, process: Solo
) -> dict[str, Any]:
    """The best epoch once more: quality of its probabilities, its noise, and a corrupted test if asked for."""
    seed, split = settings.seed + run, problem.split(run)
    clean = batches_of(problem, split, settings, seed, process)
    variance = learner.variance_shares(next(iter(clean.training(0))))
    outputs, score = clean.evaluation(learner, None), {}
    val, test = outputs("val"), outputs("test")
    if settings.test_corrupt:  # another graph for every seed
        asked = Corruption.parse(settings.test_corrupt)
        noisy = replace(asked, seed=asked.seed + seed).of_dataset(dataset)
        there = batches_of(replace(problem, graphs=noisy.graphs), split, settings, seed, process)
        test = there.evaluation(learner, None)("test")
        score = {"test": problem.task.metric(*test)}
    found = {name: value for name, value in quality(problem.task, test, val).items() if value is not None}
    return {"quality": found, "variance": variance, **score}


def _finished(folder: Path, settings: Settings, run: int, problem: Problem) -> RunRecord | None:
    """The result of a finished run with these settings, by any number of processes; None if it is still to be done.

    A result of other settings is an error, unless a checkpoint beside it tells that its replacement is under way.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    result = load_run_record(path)
    try:
        same_settings(result.settings, settings.model_dump(mode="json"), path)
        same_key(result.key, run_key(settings, run, problem.origin, result.machine["processes"]), path)
    except RunError:
        if (folder / "checkpoint.pt").exists():
            return None
        raise
    return result


@dataclass
class Checkpoint:
    """The state of one run in one file, renewed as `keeping` says and when somebody asks to stop."""

    keeping: Keeping
    settings: dict[str, Any]
    key: str  # of the run, which also knows what is no setting: a method's own defaults, the data, the code's numbers

    def restore(self, trainee: Trainee) -> None:
        """Continue from the file, if there is one and it is asked for."""
        folder, process = self.keeping.folder, self.keeping.process
        if folder is None or not self.keeping.resume or not (folder / "checkpoint.pt").exists():
            return
        path = folder / "checkpoint.pt"
        state = load_tensors(path)
        try:
            generators = state["generators"]
            same_settings(state["settings"], self.settings, path)
            if len(generators) != process.world:
                raise RunError(f"{path} was written by {len(generators)} processes; resume with as many")
            same_key(state["key"], self.key, path)
            trainee.load_state_dict(state["trainee"])
            trainee.learner.generator.set_state(generators[process.rank])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError):
            raise RunError(f"{path} is not a checkpoint of rade; delete it to start this run afresh") from None

    def after_epoch(self, trainee: Trainee) -> None:
        """Save if it is time, and stop here if somebody asked."""
        stop = self.keeping.process.total(float(self.keeping.stop_asked())) > 0
        if stop or trainee.progress.epoch % self.keeping.every == 0:
            self.save(trainee)
        if stop:
            saved = "" if self.keeping.folder is None else f", state saved in {self.keeping.folder / 'checkpoint.pt'}"
            raise Interrupted(f"stopped after epoch {trainee.progress.epoch}{saved}")

    def save(self, trainee: Trainee) -> None:
        """Write the state; the first process writes for all."""
        folder, process = self.keeping.folder, self.keeping.process
        if folder is None:
            return
        generators = process.collect(trainee.learner.generator.get_state())
        if process.rank == 0:
            whole = {"generators": generators, "trainee": trainee.state_dict()}
            save_tensors(folder / "checkpoint.pt", {"settings": self.settings, "key": self.key, **whole})


def same_settings(saved: Any, wanted: Mapping[str, Any], path: Path, advice: str = REPEAT) -> None:
    """Refuse to mix the results of different settings; a file from before a setting was there has its default."""
    known = Settings.model_fields.items()
    optional = {name: field.default for name, field in known if not field.is_required() and not field.exclude}
    there, here = _flat(optional | saved), _flat(wanted)
    for name in {**here, **there}:
        if there.get(name) != here.get(name):
            raise RunError(f"{path} was made with {name} = {there.get(name)!r}, not {here.get(name)!r}; {advice}")


def same_key(saved: Any, wanted: str, path: Path) -> None:
    """Refuse what was made with equal settings but other defaults of the method, other data or another rade."""
    if saved != wanted:
        raise RunError(
            f"{path} has these settings, but was made from other data, with other defaults of its method or by another "
            "numerical version of rade; --overwrite makes it anew, --out chooses another folder"
        )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with those of the method beside them."""
    return {**{name: value for name, value in settings.items() if name != "options"}, **settings.get("options", {})}
