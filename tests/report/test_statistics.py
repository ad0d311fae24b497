"""Statistics against SciPy."""

import numpy as np
import pytest
from scipy import stats

from rade.statistics import paired


@pytest.mark.parametrize("ratio", [0.0, 1 / 9])
def test_the_paired_test_is_scipys_and_nadeau_and_bengios(ratio):
    """Between folds the variance of the mean is s² (1/10 + 1/9), not s²/10: intervals widen, and t shrinks."""
    differences = np.random.default_rng(0).normal(0.4, 1.0, 10)
    found, expected = paired(list(differences), ratio), stats.ttest_1samp(differences, 0.0)
    widening = (1 + 10 * ratio) ** 0.5
    mean = differences.mean()
    reach = widening * (expected.confidence_interval(0.95).high - mean)
    assert (found.low, found.high) == pytest.approx((mean - reach, mean + reach), rel=1e-9)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(expected.statistic) / widening, 9), rel=1e-9)
