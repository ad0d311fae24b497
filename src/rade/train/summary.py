"""Several runs in one line: mean and standard deviation, and how two methods differ on the same runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rade.statistics import Pair, Paired, paired_scores
from rade.train.folds import best_common_epoch
from rade.train.record import RunRecord


@dataclass(frozen=True)
class Summary:
    """Scores of the runs of one method, and how they were chosen."""

    method: str
    metric: str
    scores: tuple[float, ...]
    selection: str
    seconds: float
    epoch: int | None = None  # the same for all runs where they are folds
    runs: tuple[int, ...] = ()  # their numbers; counted from 0 if none are given
    folds: int = 0  # of the data set, where runs are folds

    @property
    def by_pair(self) -> dict[Pair, float]:
        """The score of every run, by what two runs must share to be compared."""
        return {(0, run): score for run, score in zip(self.runs or range(len(self.scores)), self.scores)}

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float | None:
        """Standard deviation over runs, with n − 1; None for a single run."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f}" + ("" if self.std is None else f" ± {100 * self.std:.2f}")


def summarise(results: Sequence[RunRecord]) -> Summary:
    """Test scores at each run's best validation epoch, or the cross-validation protocol where the data has folds."""
    first = results[0]
    if first["folds"] > 0:
        epoch, scores = best_common_epoch([result["history"]["val"] for result in results])
        selection = "best epoch of the fold-averaged validation curve"
    else:
        epoch, scores = None, tuple(result["test"] for result in results)
        selection = "test score at the best validation epoch"
    seconds = sum(result["timing"]["seconds"] for result in results)
    runs = tuple(result["run"] for result in results)
    method, metric, folds = first["settings"]["method"], first["metric"], first["folds"]
    return Summary(method, metric, scores, selection, seconds, epoch, runs, folds)


def paired(summary: Summary, baseline: Summary) -> Paired | None:
    """How a method differs from another in points, on the seeds, splits or folds that both have; None without any.

    >>> print(paired(Summary("a", "accuracy", (0.8, 0.9), "", 0.0), Summary("b", "accuracy", (0.7, 0.7), "", 0.0)))
    +15.00 [−48.53, 78.53]
    """
    return paired_scores(summary.by_pair, baseline.by_pair, summary.folds)
