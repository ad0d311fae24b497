"""The one judge of two methods on the same seeds, splits or folds.

The report, `rade train`, `rade.compare` and the demo use it alike. `judge` turns paired scores into a `Verdict`:
difference, interval, p value and a sentence; `correct` makes verdicts that are read together a family (Holm).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rade.statistics import Pair, Paired, differences, fold_ratio, holm, number, paired

ALPHA = 0.05
BETTER, WORSE, HINT, SAME, UNJUDGED = "better", "worse", "hint", "same", "unjudged"
WORDS = {
    BETTER: "better",
    WORSE: "worse",
    HINT: "different only before correction for many comparisons",
    SAME: "not distinguishable",
    UNJUDGED: "too few runs to judge",
}


@dataclass(frozen=True)
class Verdict:
    """One side against another, differences in points; ``str`` is a sentence.

    Attributes:
        name, against: both sides, in words.
        result: the paired differences.
        adjusted: Holm's p value over a ``family`` of comparisons, None where there is no p value.
        pairs: how many there are, in words, such as "10 folds".
    """

    name: str
    against: str
    result: Paired
    pairs: str
    adjusted: float | None = None
    family: int = 1

    @property
    def code(self) -> str:
        """The verdict in one word: better, worse, hint (before Holm's correction only), same, unjudged."""
        result = self.result
        if result.low is None or result.high is None or self.adjusted is None:
            return UNJUDGED
        if self.adjusted < ALPHA:
            return BETTER if result.mean > 0 else WORSE
        return HINT if result.low > 0 or result.high < 0 else SAME

    def __str__(self) -> str:
        mean, code = self.result.mean, self.code
        size, side = f"{number(abs(mean))} points", "above" if mean > 0 else "below"
        if code == UNJUDGED:
            return self._unjudged(size, side)
        interval = f"95 % interval {self.result.interval}"
        if code in (BETTER, WORSE):
            return f"{self.name} is {code} than {self.against} by {size}, {interval}; {self.pairs}."
        if code == HINT:
            return (
                f"{self.name} is {size} {side} {self.against}, {interval}; {self.pairs}. Taken alone that is a "
                f"difference, among the {self.family} comparisons of this table it is not "
                f"(p = {self.adjusted:.3f} after Holm)."
            )
        found = f"{number(mean)} points, {interval}; {self.pairs}"
        return f"{self.name} is not distinguishable from {self.against}: {found}."

    def _unjudged(self, size: str, side: str) -> str:
        mean = self.result.mean
        if self.result.count == 1:
            return f"{self.name} and {self.against} share one run, {number(mean)} points apart; no interval."
        if number(abs(mean)) == number(0.0):
            return f"{self.name} scores as {self.against} in each of {self.pairs}."
        where = f"{size} {side} {self.against} in each of {self.pairs}"
        return f"{self.name} is {where}; without spread there is no interval."


def judge(
    name: str,
    against: str,
    mine: Mapping[Pair, float],
    theirs: Mapping[Pair, float],
    folds: int = 0,
    ratio: float = 0.0,
) -> Verdict | None:
    """A verdict from scores (fractions) by first seed and run, on the runs that both have; None where they share none.

    folds: of the data set, where runs are folds; ratio: test over training items, where splits share items otherwise.

    >>> print(judge("A", "B", {(0, 0): 0.9, (0, 1): 0.8, (0, 2): 0.7}, {(0, 0): 0.8, (0, 1): 0.7, (0, 2): 0.6}))
    A is 10.00 points above B in each of 3 seeds; without spread there is no interval.
    """
    gaps = differences(mine, theirs, folds)
    if not gaps:
        return None
    result = paired(gaps, fold_ratio(folds) or ratio)
    repetitions = len({seed for seed, _ in mine.keys() & theirs.keys()})
    times = f" × {repetitions} seeds" if folds and repetitions > 1 else ""
    return Verdict(name, against, result, f"{result.count} {'folds' if folds else 'seeds'}{times}", result.p)


def correct(judged: Sequence[Verdict | None]) -> tuple[Verdict, ...]:
    """Those that there are, as one family: Holm's p values over all that have a p value."""
    verdicts = [one for one in judged if one is not None]
    tested = [one.result.p for one in verdicts if one.result.p is not None]
    values = iter(holm(tested))
    return tuple(
        replace(one, adjusted=None if one.result.p is None else next(values), family=len(tested)) for one in verdicts
    )
