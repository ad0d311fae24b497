"""Paired comparisons of cells on the same seeds and splits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rade.report.judge import Verdict, correct, judge
from rade.report.match import Cell, Filled
from rade.statistics import Paired, differences

# What a line is compared with, in words.
AGAINST = {"plain": "the plain backbone", "baseline": "the best baseline", "full": "the full method"}


@dataclass(frozen=True)
class Comparison:
    """A cell against another; differences in points. `adjusted` is Holm's p value over the table's `family`."""

    cell: Cell
    reference: Cell
    kind: str
    judged: Verdict
    folds: int
    repetitions: int

    @property
    def result(self) -> Paired:
        """The paired differences."""
        return self.judged.result

    @property
    def adjusted(self) -> float | None:
        """Holm's p value."""
        return self.judged.adjusted

    @property
    def family(self) -> int:
        """Over how many comparisons."""
        return self.judged.family

    @property
    def needed(self) -> int | None:
        """Seeds for 80 % power at the observed effect; folds are given, so there the question does not arise."""
        return self.judged.needed

    @property
    def rough(self) -> bool:
        """Whether that number is an order of magnitude only."""
        return self.judged.rough

    @property
    def against(self) -> str:
        """The other side, in words."""
        return self.judged.against

    @property
    def code(self) -> str:
        """The verdict in one word: better, worse, hint (before Holm's correction only), same, unjudged."""
        return self.judged.code

    @property
    def verdict(self) -> str:
        """The verdict as a sentence."""
        return str(self.judged)


def compare(cell: Cell, reference: Cell, kind: str) -> Comparison | None:
    """The paired differences of two cells that were run; None where no seed or fold is shared."""
    mine, theirs = cell.filled, reference.filled
    assert mine is not None
    assert theirs is not None
    folds = mine.scores.folds
    against = AGAINST[kind] if kind == "plain" else f"{AGAINST[kind]}, {reference.row.name}"
    judged = judge(cell.row.name, against, mine.scores.by, theirs.scores.by, folds)
    repetitions = len({seed for seed, _ in mine.scores.by.keys() & theirs.scores.by.keys()})
    return Comparison(cell, reference, kind, judged, folds, repetitions) if judged else None


def paired_differences(mine: Filled, theirs: Filled) -> tuple[float, ...]:
    """Points by which runs of the same first seed and run differ; with folds averaged over repetitions."""
    return differences(mine.scores.by, theirs.scores.by, mine.scores.folds)


def adjust(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The same with Holm's p values: the family is every comparison given that has a p value."""
    return tuple(
        replace(one, judged=judged)
        for one, judged in zip(comparisons, correct([one.judged for one in comparisons]), strict=True)
    )
