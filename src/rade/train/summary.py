"""Several runs in one line: mean and standard deviation, and how two methods differ on the same runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rade import statistics
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

    @property
    def by_run(self) -> dict[int, float]:
        """The score of every run."""
        return dict(zip(self.runs or range(len(self.scores)), self.scores))

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
    return Summary(first["settings"]["method"], first["metric"], scores, selection, seconds, epoch, runs)


@dataclass(frozen=True)
class Difference:
    """Mean of the differences run by run, with its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} [{100 * self.low:.2f}, {100 * self.high:.2f}]"


def paired(summary: Summary, baseline: Summary) -> Difference | None:
    """How a method differs from another on the same seeds, splits or folds; None for a single run.

    >>> print(paired(Summary("a", "accuracy", (0.8, 0.9), "", 0.0), Summary("b", "accuracy", (0.7, 0.7), "", 0.0)))
    +15.00 [-48.53, 78.53]
    """
    if len(summary.scores) != len(baseline.scores):
        raise ValueError(f"runs must pair up, got {len(summary.scores)} and {len(baseline.scores)}")
    gaps = [mine - theirs for mine, theirs in zip(summary.scores, baseline.scores)]
    if len(gaps) < 2:
        return None
    found = statistics.paired(gaps)
    if found.low is None or found.high is None:
        return Difference(found.mean, found.mean, found.mean)  # the same in every run
    return Difference(found.mean, found.low, found.high)


def in_common(summary: Summary, other: Summary) -> tuple[Summary, Summary]:
    """The two on the runs that both have.

    >>> [s.scores for s in in_common(Summary("a", "", (0.8, 0.9), "", 0.0), Summary("b", "", (0.7,), "", 0.0))]
    [(0.8,), (0.7,)]
    """
    mine, theirs = summary.by_run, other.by_run
    shared = tuple(run for run in mine if run in theirs)
    return (
        replace(summary, scores=tuple(mine[run] for run in shared), runs=shared),
        replace(other, scores=tuple(theirs[run] for run in shared), runs=shared),
    )
