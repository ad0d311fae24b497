"""Which epoch's score counts: each run's own, or the common one of all folds."""

from collections.abc import Mapping
from dataclasses import dataclass

from rade.report.groups import Group
from rade.report.rows import Run
from rade.statistics import Pair, averaged
from rade.train.folds import best_common_epoch

OWN_EPOCH = "test score at the best validation epoch"
COMMON_EPOCH = "best epoch of the fold-averaged validation curve"


@dataclass(frozen=True)
class Scores:
    """Fractions by first seed and run; with folds, the run is the fold and the first seed the repetition."""

    by: Mapping[Pair, float]
    folds: int = 0
    epochs: Mapping[int, int] | None = None  # the common epoch of each repetition, where there are folds

    @property
    def rule(self) -> str:
        """The selection rule in words."""
        return COMMON_EPOCH if self.folds else OWN_EPOCH

    @property
    def units(self) -> dict[Pair, float]:
        """What mean and deviation are taken over: runs, or folds averaged over their repetitions."""
        return averaged(self.by) if self.folds else dict(self.by)


def score(group: Group) -> Scores:
    """The scores of a group by the rule of its data set."""
    if not group.first.folds:
        return Scores({run.pair: run.test for run in group.runs})
    repetitions: dict[int, list[Run]] = {}
    for run in group.runs:
        repetitions.setdefault(run.pair[0], []).append(run)
    by: dict[Pair, float] = {}
    epochs = {}
    for seed, runs in sorted(repetitions.items()):
        epochs[seed], scores = best_common_epoch([run.val_curve for run in runs])
        by |= {run.pair: value for run, value in zip(runs, scores)}
    return Scores(by, group.first.folds, epochs)
