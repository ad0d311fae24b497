"""One run: train, keep checkpoints on the way, leave a model and a result file."""

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rade.augment import Learner
from rade.data import Dataset, Split
from rade.train.checkpoint import Checkpoint, Keeping
from rade.train.command import repeat_command
from rade.train.errors import RunError, SettingsError
from rade.train.files import ensure_writable, load_run_record, remove, write_whole
from rade.train.final import check_test, judge_best
from rade.train.labels import relabelled
from rade.train.loop import Trainee, fit
from rade.train.matching import same_key, same_settings
from rade.train.model import Shape, Trained, build_learner, load_model, save_model
from rade.train.process import Solo
from rade.train.progress import Progress, Stopping
from rade.train.record import NUMERICS, RunRecord, commit, key_of, machine, origin, versions
from rade.train.schedule import SCHEDULES
from rade.train.settings import Settings, all_options
from rade.train.steps import batches_of
from rade.train.task import Task

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
Observer = Callable[[Progress], None]


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
    process = keeping.process
    check_level(dataset, settings)
    check_test(dataset, settings)
    wanted = settings.model_dump(mode="json")
    key = partial(run_key, settings, run, origin(dataset))
    done = _finished(folder, wanted, key) if resume else None
    if done is not None:
        return done
    if process.rank == 0:
        ensure_writable(folder)
        # A result that is there stays until this run has one; of an earlier checkpoint nothing is needed.
        if not resume:
            remove(folder / "checkpoint.pt")
    checkpoint = Checkpoint(folder / "checkpoint.pt", wanted, key(process.world), keeping)
    trainee = _train(dataset, settings, run, checkpoint, resume, observe)
    result = _result(dataset, settings, run, trainee, process)
    # Killed between the two files below, the run is still known as unfinished and ends when it is resumed.
    checkpoint.save(trainee)
    if process.rank == 0:
        shape, state = Shape.of(dataset), trainee.progress.best_state
        save_model(folder / "model.pt", settings, shape, settings.seed + run, state)
        write_whole(folder / "result.json", lambda file: file.write(result.to_json().encode()))
        remove(folder / "checkpoint.pt")
    return result


def _finished(folder: Path, wanted: Mapping[str, Any], key: Callable[[int], str]) -> RunRecord | None:
    """The result of a finished run with the `wanted` settings; None if the run is still to be done.

    `key` is the run's by the number of processes: any number serves, but data, defaults and numerics must agree.

    A result of other settings is an error, unless a checkpoint beside it tells that its replacement is under way.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    result = load_run_record(path)
    try:
        same_settings(result.settings, wanted, path)
        same_key(result.key, key(result.machine["processes"]), path)
    except RunError:
        if (folder / "checkpoint.pt").exists():
            return None
        raise
    return result


def _skipped_steps(learner: Learner) -> int:
    """How many rate steps were not finite and therefore not taken; 0 for methods without such steps."""
    return sum(int(value) for name, value in learner.named_buffers() if name.endswith(".skipped"))


def load_run(folder: str | Path) -> Trained:
    """The trained model of a finished run, from the folder that `train_run` or `rade train` wrote."""
    return load_model(Path(folder) / "model.pt")


def check_level(dataset: Dataset, settings: Settings) -> None:
    """Refuse pooling on a node-level data set, and a graph-level one without."""
    if (settings.pool == "none") != (dataset.level == "node"):
        needed = "none" if dataset.level == "node" else "sum or mean"
        raise SettingsError(
            f"{dataset.name} is a data set of {dataset.level}s: pool must be {needed}, got {settings.pool!r}"
        )


def check_folds(dataset: Dataset, runs: int) -> None:
    """Refuse more runs than there are folds."""
    if 0 < dataset.folds < runs:
        raise SettingsError(f"data set {dataset.name} has {dataset.folds} folds; ask for at most as many runs")


def split_of(dataset: Dataset, run: int, seed: int) -> Split:
    """The split of one run: fold number `run` where the data set has folds."""
    check_folds(dataset, run + 1)
    return dataset.split(run, seed) if dataset.folds == 0 else dataset.fold(run)


def split_for(dataset: Dataset, settings: Settings, run: int) -> Split:
    """The split of one run, with the labels that its settings choose."""
    split = split_of(dataset, run, settings.seed)
    return relabelled(dataset, split, settings, settings.seed + run)


def new_trainee(dataset: Dataset, settings: Settings, seed: int, rank: int = 0) -> Trainee:
    """What a run trains, before its first epoch: learner, optimizer and schedule."""
    learner = build_learner(settings, Shape.of(dataset), seed, rank, dataset)
    optimizer = OPTIMIZERS[settings.optimizer](learner.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    return Trainee(learner, optimizer, SCHEDULES[settings.schedule](optimizer), Progress())


def _train(
    dataset: Dataset, settings: Settings, run: int, checkpoint: Checkpoint, resume: bool, observe: Observer
) -> Trainee:
    process, seed = checkpoint.process, settings.seed + run
    split = split_for(dataset, settings, run)
    _check_split(dataset, split)
    batches = batches_of(dataset, split, settings, seed, process)
    trainee = new_trainee(dataset, settings, seed, process.rank)
    if resume:
        checkpoint.restore(trainee)

    def after_epoch(trainee: Trainee) -> None:
        observe(trainee.progress)
        checkpoint(trainee)

    stopping = Stopping(settings.epochs, settings.patience)
    fit(trainee, batches, Task.of(dataset), stopping, process, after_epoch)
    return trainee


def _check_split(dataset: Dataset, split: Split) -> None:
    for name, items in {"train": split.train, "validation": split.val, "test": split.test}.items():
        if len(items) == 0:
            raise SettingsError(
                f"data set {dataset.name} has no {name} part in this split; training needs train, validation and test"
            )


def run_key(settings: Settings, run: int, data: dict[str, Any], processes: int = 1) -> str:
    """The name under which a run is stored; data: the data set's `origin`."""
    return key_of(settings.model_dump(mode="json"), all_options(settings), run, data, processes)


def _result(dataset: Dataset, settings: Settings, run: int, trainee: Trainee, process: Solo) -> RunRecord:
    """Everything about a run; only `timing` differs between two runs of the same settings on the same machine."""
    progress, processes, seed = trainee.progress, process.world, settings.seed + run
    best = judge_best(dataset, split_for(dataset, settings, run), settings, seed, progress.best_state, process)
    threads, data, (revision, dirty) = torch.get_num_threads(), origin(dataset), commit()
    row = {
        "key": run_key(settings, run, data, processes),
        "numerics": NUMERICS,
        "settings": settings.model_dump(mode="json"),
        "protocol": settings.protocol,
        "run": run,
        "seed": seed,
        "metric": dataset.metric,
        "folds": dataset.folds,
        "val": progress.best_val,
        "test": best.test if settings.test_corrupt else progress.best_test,
        "quality": best.quality,
        "variance": best.variance,
        "best_epoch": progress.best_epoch,
        "epochs": progress.epoch,
        "history": progress.history,
        "skipped": _skipped_steps(trainee.learner),
        "timing": {
            "seconds": sum(progress.seconds),
            "seconds_per_epoch": sum(progress.seconds) / len(progress.seconds),
            "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        },
        "versions": dict(versions()),
        "commit": revision,
        "dirty": dirty,
        "machine": {**machine(), "processes": processes},
        "threads": threads,
        "command": repeat_command(settings, run, threads),
        "data": data,
    }
    return RunRecord.of(row)
