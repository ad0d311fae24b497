"""Statistics against SciPy, brute force and cases worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from rade.statistics import paired


def sample(seed, count=12, mean=0.4):
    return np.random.default_rng(seed).normal(mean, 1.0, count)


@pytest.mark.parametrize("seed", range(3))
def test_the_paired_test_is_scipys(seed):
    ours, theirs = sample(seed), sample(seed + 100, mean=0.0)
    found, expected = paired(list(ours - theirs)), stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_nadeau_and_bengio_by_hand():
    """Ten folds: the variance of the mean is s² (1/10 + 1/9), not s²/10."""
    differences = list(sample(3, 10))
    plain, corrected = paired(differences), paired(differences, 1 / 9)
    widening = math.sqrt((1 / 10 + 1 / 9) / (1 / 10))
    assert corrected.high - corrected.low == pytest.approx(widening * (plain.high - plain.low))
    t = corrected.mean / (corrected.std * math.sqrt(1 / 10 + 1 / 9))
    assert corrected.p == pytest.approx(2 * stats.t.sf(abs(t), 9))
