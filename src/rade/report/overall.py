"""One method against another over all data sets: probability of improvement and interquartile mean, bootstrapped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REPLICATES = 2000
SEED = 0
LEVEL = 0.95
# Pairs of runs that a data set needs: resampling so few tells too little of how they spread. Without any difference
# 95 % intervals of five pairs on two data sets leave out 0 in 7 to 10 % of cases, of three in 15 %, of two in 34 %.
ENOUGH = 5


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % percentile interval."""

    value: float
    low: float
    high: float


def probability_of_improvement(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> Interval:
    """Chance that a run of ours beats a run of theirs, ties half, averaged over data sets; runs are resampled.

    P = mean over data sets of 1/(NK) Σᵢ Σⱼ [xᵢ > yⱼ] + ½ [xᵢ = yⱼ]   (Agarwal et al. 2021).
    """
    import numpy as np

    generator = np.random.default_rng(SEED)
    values, replicates = [], np.zeros(REPLICATES)
    for name in sorted(ours):
        x, y = np.asarray(ours[name]), np.asarray(theirs[name])
        wins = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        values.append(wins.mean())
        a, b = _weights(generator, len(x)), _weights(generator, len(y))
        replicates += np.einsum("rm,rm->r", a @ wins, b)
    return _interval(float(np.mean(values)), replicates / len(values))


def interquartile_mean(differences: Mapping[str, Sequence[float]]) -> Interval:
    """Mean of the middle half of all differences of all data sets; pairs are resampled within each data set."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    names = sorted(differences)
    drawn = []
    for name in names:
        values = np.asarray(differences[name])
        drawn.append(values[generator.integers(len(values), size=(REPLICATES, len(values)))])
    everything = np.concatenate([np.asarray(differences[name]) for name in names])
    return _interval(float(middle_half(everything)), middle_half(np.concatenate(drawn, axis=1)))


def middle_half(values: Any) -> Any:
    """Mean along the last axis without the lowest and the highest quarter, rounded down, of the values."""
    import numpy as np

    ordered = np.sort(np.asarray(values), axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)


def _weights(generator: Any, count: int) -> Any:
    """Bootstrap samples as how often each run was drawn: [replicates, runs], rows sum to 1."""
    import numpy as np

    drawn = generator.integers(count, size=(REPLICATES, count)) + count * np.arange(REPLICATES)[:, None]
    return np.bincount(drawn.ravel(), minlength=REPLICATES * count).reshape(REPLICATES, count) / count


def _interval(value: float, replicates: Any) -> Interval:
    import numpy as np

    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))
