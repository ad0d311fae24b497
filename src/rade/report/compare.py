"""Two cells on the same seeds and splits, and what may be said about them in plain words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rade.report.match import Cell, Filled
from rade.report.numbers import minus, number
from rade.report.selection import averaged
from rade.report.statistics import Paired, holm, paired, seeds_needed

ALPHA = 0.05
BETTER, WORSE, HINT, SAME, UNJUDGED = "better", "worse", "hint", "same", "unjudged"
# What a line is compared with, in words.
AGAINST = {"plain": "the plain backbone", "baseline": "the best baseline", "full": "the full method"}


@dataclass(frozen=True)
class Comparison:
    """A cell against another; differences in points. `adjusted` is Holm's p value over the table's `family`."""

    cell: Cell
    reference: Cell
    kind: str
    differences: tuple[float, ...]
    result: Paired
    folds: int
    repetitions: int
    adjusted: float | None = None
    family: int = 0

    @property
    def needed(self) -> int | None:
        """Seeds for 80 % power at the observed effect; folds are given, so there the question does not arise."""
        return None if self.folds or self.result.effect is None else seeds_needed(self.result.effect)

    @property
    def against(self) -> str:
        """The other side, in words."""
        words = AGAINST[self.kind]
        return words if self.kind == "plain" else f"{words}, {self.reference.row.name}"

    @property
    def code(self) -> str:
        """The verdict in one word: better, worse, hint (before Holm's correction only), same, unjudged."""
        result = self.result
        if result.low is None or result.high is None or self.adjusted is None:
            return UNJUDGED
        if self.adjusted < ALPHA:
            return BETTER if result.mean > 0 else WORSE
        return HINT if result.low > 0 or result.high < 0 else SAME

    @property
    def verdict(self) -> str:
        """The verdict as a sentence."""
        return _sentence(self)


def compare(cell: Cell, reference: Cell, kind: str) -> Comparison | None:
    """The paired differences of two cells that were run; None where no seed or fold is shared."""
    mine, theirs = cell.filled, reference.filled
    assert mine is not None
    assert theirs is not None
    gaps = paired_differences(mine, theirs)
    if not gaps:
        return None
    folds = mine.scores.folds
    repetitions = len({seed for seed, _ in mine.scores.by.keys() & theirs.scores.by.keys()})
    # n_test / n_train of k-fold cross-validation is 1 / (k − 1).
    result = paired(gaps, 1 / (folds - 1) if folds > 1 else 0.0)
    return Comparison(cell, reference, kind, gaps, result, folds, repetitions)


def paired_differences(mine: Filled, theirs: Filled) -> tuple[float, ...]:
    """Points by which runs of the same first seed and run differ; with folds averaged over repetitions."""
    shared = mine.scores.by.keys() & theirs.scores.by.keys()
    gaps = {pair: 100 * (mine.scores.by[pair] - theirs.scores.by[pair]) for pair in sorted(shared)}
    return tuple((averaged(gaps) if mine.scores.folds else gaps).values())


def adjust(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The same with Holm's p values: the family is every comparison given that has a p value."""
    tested = [one for one in comparisons if one.result.p is not None]
    values = iter(holm([one.result.p for one in tested if one.result.p is not None]))
    return tuple(
        replace(one, adjusted=next(values), family=len(tested)) if one.result.p is not None else one
        for one in comparisons
    )


def _sentence(one: Comparison) -> str:
    name, mean, code = one.cell.row.name, one.result.mean, one.code
    size = f"{number(abs(mean))} points"
    if code == UNJUDGED:
        if one.result.count == 1:
            return f"{name} and {one.against} share one run, {minus(number(mean))} points apart; no interval."
        if number(abs(mean)) == number(0.0):
            return f"{name} scores as {one.against} in each of {_count(one)}."
        side = "above" if mean > 0 else "below"
        return f"{name} is {size} {side} {one.against} in each of {_count(one)}; without spread there is no interval."
    interval = f"95 % interval {minus(number(one.result.low))} to {minus(number(one.result.high))}"
    if code in (BETTER, WORSE):
        return f"{name} is {code} than {one.against} by {size}, {interval}; {_count(one)}."
    if code == HINT:
        side = "above" if mean > 0 else "below"
        return (
            f"{name} is {size} {side} {one.against}, {interval}; {_count(one)}. Taken alone that is a difference, "
            f"among the {one.family} comparisons of this table it is not (p = {one.adjusted:.2f} after Holm)."
        )
    found = f"{minus(number(mean))} points, {interval}; {_count(one)}"
    return f"{name} cannot be told apart from {one.against}: {found}. {_more(one)}"


def _count(one: Comparison) -> str:
    if not one.folds:
        return f"{one.result.count} seeds"
    times = f" × {one.repetitions} seeds" if one.repetitions > 1 else ""
    return f"{one.result.count} folds{times}"


def _more(one: Comparison) -> str:
    if one.folds:
        return "The folds are given; more seeds narrow this only in part."
    if one.needed is None:
        return "An effect of the observed size would need more than 10,000 seeds for 80 % power."
    return f"An effect of the observed size would need {one.needed:,} seeds for 80 % power."
