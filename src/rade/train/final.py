"""The best model of a finished run, judged once more: quality of its probabilities, a corrupted test, its noise."""

from dataclasses import dataclass
from typing import Any

from rade.data import Dataset, Split
from rade.train.corruption import Corruption
from rade.train.errors import RunError, SettingsError
from rade.train.model import Shape, build_learner
from rade.train.process import Solo
from rade.train.quality import quality
from rade.train.settings import Settings
from rade.train.steps import batches_of
from rade.train.task import Task


@dataclass(frozen=True)
class Final:
    """What a run's row says of its best epoch beside the validation score.

    variance: the shares of the logits' variance that drops and additions make, empty for methods without views.
    """

    test: float
    quality: dict[str, float | None]
    variance: dict[str, float]


def check_test(dataset: Dataset, settings: Settings) -> None:
    """Refuse a corrupted test where folds are scored on their validation part."""
    if settings.test_corrupt and dataset.folds:
        raise SettingsError(
            f"{dataset.name} is scored on the validation part of its folds, so test_corrupt has nothing to act on; "
            "choose a data set with a test part"
        )
    if settings.test_corrupt and settings.options.get("noise_trust"):
        raise SettingsError("noise_trust is of one graph, and test_corrupt tests on another: leave one of them out")


def judge_best(
    dataset: Dataset, split: Split, settings: Settings, seed: int, state: dict[str, Any], process: Solo
) -> Final:
    """Test score, log-loss and calibration of the best epoch's parameters, on a corrupted graph if settings say so."""
    learner = build_learner(settings, Shape.of(dataset), seed, process.rank, dataset)
    try:
        learner.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError, LookupError, ValueError):
        raise RunError("checkpoint.pt is not a checkpoint of rade; delete it to start this run afresh") from None
    learner.eval()
    task = Task.of(dataset)
    clean = batches_of(dataset, split, settings, seed, process)
    variance = learner.variance_shares(*next(iter(clean.training(0))).inputs[:3])
    tested = clean if not settings.test_corrupt else _corrupted(dataset, split, settings, seed, process)
    outputs = clean.evaluation(learner, None)
    val = outputs("val")
    test = outputs("test") if tested is clean else tested.evaluation(learner, None)("test")
    return Final(task.metric(*test), quality(task, test, val), variance)


def _corrupted(dataset: Dataset, split: Split, settings: Settings, seed: int, process: Solo) -> Any:
    """The same batches on another graph, one for every seed."""
    asked = Corruption.parse(settings.test_corrupt)
    noisy = Corruption(asked.drop, asked.add, asked.seed + seed).of_dataset(dataset)
    return batches_of(noisy, split, settings, seed, process)
