"""Scores of folds at one common epoch, written once for training, tuning and reports. Without torch."""

from collections.abc import Sequence
from math import fsum


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """The average of curves, as far as the shortest goes.

    >>> mean_curve([[1.0, 2.0], [3.0, 4.0, 9.0]])
    [2.0, 3.0]
    """
    return [fsum(values) / len(values) for values in zip(*curves)]


def best_common_epoch(curves: Sequence[Sequence[float]]) -> tuple[int, tuple[float, ...]]:
    """GIN's protocol: the epoch (from 1) at which the mean of all curves is highest, and each curve's value there.

    The first of equals. It selects on the data it reports, which flatters every method; kept for comparison.

    >>> best_common_epoch([[0.1, 0.6, 0.5], [0.1, 0.2, 0.7]])
    (3, (0.5, 0.7))
    """
    means = mean_curve(curves)
    best = max(range(len(means)), key=means.__getitem__)
    return best + 1, tuple(curve[best] for curve in curves)
