"""Pure statistics of runs that pair up, without torch; `docs/reproduce.md` gives every formula and its source."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEVEL = 0.95
# Scores are multiples of one over the number of test items: a smaller deviation is rounding, not spread.
NO_SPREAD = 1e-9
# What two runs must share to be compared: their first seed and the number of the run, hence the split or the fold.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation with n − 1 (None for one value), and how many."""

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True)
class Paired(Spread):
    """The mean difference of pairs with its interval and p value; None where they do not exist.

    >>> print(Paired(0.5, 1.0, 3, low=-2.0, high=3.0), Paired(10.0, 0.0, 3))
    +0.50 [−2.00, 3.00] +10.00
    """

    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def interval(self) -> str:
        """Both ends, or a dash."""
        return "–" if self.low is None else f"{number(self.low)} to {number(self.high)}"

    def __str__(self) -> str:
        return signed(self.mean) + ("" if self.low is None else f" [{number(self.low)}, {number(self.high)}]")


def spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation, summed exactly so that the order of runs cannot show.

    >>> spread([1.0, 3.0])
    Spread(mean=2.0, std=1.4142135623730951, count=2)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Spread(mean, None, count)
    return Spread(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)), count)


def paired(differences: Sequence[float], ratio: float = 0.0) -> Paired:
    """Student's paired test: mean ± t·√((1/n + ratio)·s²) on n − 1 degrees of freedom.

    `ratio` is n_test / n_train where the pairs are folds (Nadeau and Bengio's corrected variance), 0 for separate runs.
    """
    from scipy.special import stdtr, stdtrit

    found = spread(differences)
    if found.std is None or found.std < NO_SPREAD:
        return Paired(**vars(found))
    error, freedom = found.std * math.sqrt(1 / found.count + ratio), found.count - 1
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    p = float(2 * stdtr(freedom, -abs(found.mean) / error))
    return Paired(**vars(found), low=found.mean - reach, high=found.mean + reach, p=p)


def differences(mine: Mapping[Pair, float], theirs: Mapping[Pair, float], folds: int = 0) -> tuple[float, ...]:
    """Points (percent) between the fractions of pairs that both sides have; folds averaged over repetitions.

    >>> differences({(0, 0): 0.75, (0, 1): 0.5}, {(0, 0): 0.5, (0, 2): 0.5})
    (25.0,)
    """
    gaps = {pair: 100 * (mine[pair] - theirs[pair]) for pair in sorted(mine.keys() & theirs.keys())}
    return tuple((averaged(gaps) if folds else gaps).values())


def averaged(by: Mapping[Pair, float]) -> dict[Pair, float]:
    """Values of equal fold averaged over repetitions, which have first seeds of their own."""
    folds: dict[int, list[float]] = {}
    for (_, fold), value in sorted(by.items()):
        folds.setdefault(fold, []).append(value)
    return {(0, fold): sum(values) / len(values) for fold, values in sorted(folds.items())}


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """The average of curves, as far as the shortest goes.

    >>> mean_curve([[1.0, 2.0], [3.0, 4.0, 9.0]])
    [2.0, 3.0]
    """
    return [math.fsum(values) / len(values) for values in zip(*curves)]


def best_common_epoch(curves: Sequence[Sequence[float]]) -> tuple[int, tuple[float, ...]]:
    """GIN's protocol: the epoch (from 1) at which the mean of all curves is highest, and each curve's value there.

    The first of equals. It selects on the data it reports, which flatters every method; kept for comparison.

    >>> best_common_epoch([[0.1, 0.6, 0.5], [0.1, 0.2, 0.7]])
    (3, (0.5, 0.7))
    """
    means = mean_curve(curves)
    best = max(range(len(means)), key=means.__getitem__)
    return best + 1, tuple(curve[best] for curve in curves)


def fold_ratio(folds: int) -> float:
    """n_test / n_train of k-fold cross-validation, for `paired`; 0 where runs are no folds.

    >>> fold_ratio(5), fold_ratio(0)
    (0.25, 0.0)
    """
    return 1 / (folds - 1) if folds > 1 else 0.0


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down p values of a family, in the order given: max over j ≤ i of min(1, (m − j + 1)·p₍ⱼ₎).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = highest
    return adjusted


def number(value: float | None, digits: int = 2) -> str:
    """Fixed digits, a typographic minus and no negative zero; a dash for what does not exist.

    >>> number(-0.001), number(-1.25, 1), number(None)
    ('0.00', '−1.2', '–')
    """
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """With a sign, also for gains.

    >>> signed(0.5), signed(-0.5), signed(0.0)
    ('+0.50', '−0.50', '0.00')
    """
    text = number(value, digits)
    return f"+{text}" if value is not None and float(f"{value:.{digits}f}") > 0 else text


def many(count: int, what: str) -> str:
    """A count with its noun.

    >>> many(1, "run"), many(12000, "run")
    ('1 run', '12,000 runs')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
