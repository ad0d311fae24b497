"""Moments of random degrees against the exact sum over both binomials."""

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from rade.moments.degrees import random_degree

POWERS = (0.5, 1.0, 2.0)
DEGREES = (1, 2, 3, 10, 100, 1_000, 10_000)


def moments(how: str, c: float, a: Tensor, b: Tensor, p: float, q: float) -> list[Tensor]:
    """Of one row of classes."""
    return random_degree(torch.tensor([[c]]).double(), a[None].double(), b[None].double(), how, p, q, POWERS)


def support(count: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of a binomial that carry all but 10^−17 of its mass, and their probabilities."""
    mean, deviation = count * chance, (count * chance * (1 - chance)) ** 0.5
    reach = 12 * deviation + 40
    values = np.arange(max(0, int(mean - reach)), min(count, int(mean + reach)) + 1)
    chances = binom.pmf(values, count, chance)
    return values, chances / chances.sum()


def summed(c: float, a: int, b: int, p: float, q: float) -> list[float]:
    """E[X^−s] by the distribution of the sum of the two binomials, for each power."""
    (kept, first), (added, second) = support(a, 1 - p), support(b, q)
    chances = np.convolve(first, second)
    x = c + kept[0] + added[0] + np.arange(len(chances))
    return [float((chances * x**-s).sum()) for s in POWERS]


@pytest.mark.parametrize("rho", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("n", [12_000, 10**7])
def test_exact_moments_are_the_exact_sum(n, p, rho):
    """Degrees 1 … 10,000, c = 1 and 2, q = ρ · mean degree / (n−1): relative error at most 1e-10 (found: 1e-12)."""
    worst = 0.0
    for mean_degree in (4, 3_000):
        q = rho * mean_degree / (n - 1)
        for c in (1.0, 2.0):
            a = torch.tensor(DEGREES)
            found = moments("exact", c, a, n - 1 - a, p, q)
            for k, degree in enumerate(DEGREES):
                for value, expected in zip(found, summed(c, degree, n - 1 - degree, p, q)):
                    worst = max(worst, abs(float(value[0, k]) / expected - 1))
    assert worst <= 1e-10


def test_delta_moments_err_as_stated():
    """The paper's expansion at Cora's sizes (n = 2708, degree 1 … 8, p = ρ = ½): the errors that `exact` removes."""
    a, q = torch.arange(8), 0.5 * 2 * 5278 / (2708 * 2707)
    off = [
        float((other / one - 1).abs().max())
        for one, other in zip(*(moments(how, 2.0, a, 2707 - 1 - a, 0.5, q) for how in ("exact", "delta")))
    ]
    assert off == pytest.approx([0.003, 0.013, 0.07], rel=0.3)
