"""Two cells on the same seeds and splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rade.report.match import Cell, Filled
from rade.report.selection import Pair, averaged
from rade.report.verdict import Verdict
from rade.statistics import Paired, fold_ratio, holm, paired

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
        return self._judged.needed

    @property
    def rough(self) -> bool:
        """Whether that number is an order of magnitude only."""
        return self._judged.rough

    @property
    def against(self) -> str:
        """The other side, in words."""
        words = AGAINST[self.kind]
        return words if self.kind == "plain" else f"{words}, {self.reference.row.name}"

    @property
    def code(self) -> str:
        """The verdict in one word: better, worse, hint (before Holm's correction only), same, unjudged."""
        return self._judged.code

    @property
    def verdict(self) -> str:
        """The verdict as a sentence."""
        return str(self._judged)

    @property
    def _judged(self) -> Verdict:
        times = f" × {self.repetitions} seeds" if self.repetitions > 1 else ""
        pairs = f"{self.result.count} folds{times}" if self.folds else ""
        return Verdict(self.cell.row.name, self.against, self.result, self.adjusted, self.family, pairs)


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
    return Comparison(cell, reference, kind, gaps, paired(gaps, fold_ratio(folds)), folds, repetitions)


def paired_differences(mine: Filled, theirs: Filled) -> tuple[float, ...]:
    """Points by which runs of the same first seed and run differ; with folds averaged over repetitions."""
    return differences(mine.scores.by, theirs.scores.by, mine.scores.folds)


def differences(mine: Mapping[Pair, float], theirs: Mapping[Pair, float], folds: int) -> tuple[float, ...]:
    """Points between the fractions of pairs that both have; with folds averaged over repetitions."""
    gaps = {pair: 100 * (mine[pair] - theirs[pair]) for pair in sorted(mine.keys() & theirs.keys())}
    return tuple((averaged(gaps) if folds else gaps).values())


def adjust(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The same with Holm's p values: the family is every comparison given that has a p value."""
    tested = [one for one in comparisons if one.result.p is not None]
    values = iter(holm([one.result.p for one in tested if one.result.p is not None]))
    return tuple(
        replace(one, adjusted=next(values), family=len(tested)) if one.result.p is not None else one
        for one in comparisons
    )
