"""Statistics against SciPy, brute force and cases worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from rade.report.overall import interquartile_mean, middle_half, probability_of_improvement
from rade.statistics import holm, paired, power, seeds_needed, spread


def sample(seed, count=12, mean=0.4):
    return np.random.default_rng(seed).normal(mean, 1.0, count)


@pytest.mark.parametrize("seed", range(5))
def test_the_paired_test_is_scipys(seed):
    ours, theirs = sample(seed), sample(seed + 100, mean=0.0)
    found, expected = paired(list(ours - theirs)), stats.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert found.effect == pytest.approx(np.mean(ours - theirs) / np.std(ours - theirs, ddof=1))


def test_a_paired_test_by_hand():
    """Differences 1, 2, 3: mean 2, s = 1, t = 2√3 on 2 degrees of freedom, t₀.₉₇₅ = 4.302653."""
    found = paired([1.0, 2.0, 3.0])
    assert (found.mean, found.std, found.count, found.effect) == (2.0, 1.0, 3, 2.0)
    assert found.high - found.mean == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    # For two degrees of freedom P(|T| > t) = 1 − t / √(t² + 2).
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_nadeau_and_bengio_by_hand():
    """Ten folds: the variance of the mean is s² (1/10 + 1/9), not s²/10."""
    differences = list(sample(3, 10))
    plain, corrected = paired(differences), paired(differences, 1 / 9)
    widening = math.sqrt((1 / 10 + 1 / 9) / (1 / 10))
    assert corrected.high - corrected.low == pytest.approx(widening * (plain.high - plain.low))
    t = corrected.mean / (corrected.std * math.sqrt(1 / 10 + 1 / 9))
    assert corrected.p == pytest.approx(2 * stats.t.sf(abs(t), 9))
    assert corrected.effect == plain.effect


@pytest.mark.parametrize("values", [[0.5], [0.25, 0.25, 0.25], [0.1 + 0.2, 0.3]])
def test_without_spread_there_is_no_test(values):
    found = paired(values)
    assert (found.low, found.high, found.p, found.effect) == (None, None, None, None)


def test_spread_does_not_depend_on_order():
    values = list(sample(7, 50) * 1e3)
    assert spread(values) == spread(values[::-1])
    assert spread(values).std == pytest.approx(np.std(values, ddof=1))


def test_holm_by_hand():
    """Smallest times 4, next times 3, next times 2; values never fall, and stay at most 1."""
    assert holm([0.03, 0.01, 0.6, 0.012]) == pytest.approx([0.06, 0.04, 0.6, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_holm_rejects_as_the_step_down_procedure(seed):
    values = np.random.default_rng(seed).uniform(0, 0.06, 8)
    rejected = set()
    for rank, index in enumerate(np.argsort(values)):
        if values[index] > 0.05 / (len(values) - rank):
            break
        rejected.add(int(index))
    assert {index for index, p in enumerate(holm(list(values))) if p <= 0.05} == rejected


@pytest.mark.parametrize(("effect", "count"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_needed_are_those_of_the_textbook(effect, count):
    """Cohen's small, medium and large effects, one sample, two-sided 5 %, power 0.8."""
    assert seeds_needed(effect) == seeds_needed(-effect) == count
    assert power(effect, count) >= 0.8 > power(effect, count - 1)


def test_power_is_what_simulation_says():
    """40,000 draws: a standard error of 0.0022; the tolerance is four of them."""
    draws = np.random.default_rng(0).normal(0.6, 1.0, (40_000, 12))
    found = stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05
    assert power(0.6, 12) == pytest.approx(found.mean(), abs=0.009)


@pytest.mark.parametrize("effect", [0.03, 0.0889, 0.089, 3.0, 40.0, 1e6])
def test_the_count_is_the_fewest_for_any_effect(effect):
    count = seeds_needed(effect)
    assert power(effect, count) >= 0.8
    assert count == 2 or power(effect, count - 1) < 0.8


def test_a_hopeless_effect_has_no_count():
    assert seeds_needed(0.0) is None
    assert seeds_needed(0.02) is None


@pytest.mark.parametrize("count", [1, 4, 7, 20])
def test_the_interquartile_mean_is_scipys_trimmed_mean(count):
    values = sample(count, count)
    assert middle_half(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_improvement_by_hand():
    """Cora: 2 > 1 and 2 = 2 in four pairs each half: (1 + 0.5 + 1 + 1) / 4; MUTAG: never."""
    ours = {"cora": [2.0, 3.0], "mutag": [0.0]}
    theirs = {"cora": [1.0, 2.0], "mutag": [5.0, 6.0]}
    assert probability_of_improvement(ours, theirs).value == pytest.approx((3.5 / 4 + 0.0) / 2)


def test_improvement_is_mann_whitneys_statistic():
    ours, theirs = sample(1, 15), sample(2, 20)
    expected = stats.mannwhitneyu(ours, theirs).statistic / (15 * 20)
    assert probability_of_improvement({"x": list(ours)}, {"x": list(theirs)}).value == pytest.approx(expected)


def test_bootstrap_intervals_are_those_of_a_plain_loop():
    """Percentiles of a slow bootstrap with another seed; both have 2,000 samples, so they agree to a few hundredths."""
    ours, theirs = sample(1, 10), sample(2, 10, mean=0.0)
    dice = np.random.default_rng(9)
    slow = []
    for _ in range(2000):
        x, y = dice.choice(ours, 10), dice.choice(theirs, 10)
        slow.append(((x[:, None] > y) + 0.5 * (x[:, None] == y)).mean())
    found = probability_of_improvement({"x": list(ours)}, {"x": list(theirs)})
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])), abs=0.03)
    middles = [stats.trim_mean(dice.choice(ours - theirs, 10), 0.25) for _ in range(2000)]
    found = interquartile_mean({"x": list(ours - theirs)})
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(middles, [0.025, 0.975])), abs=0.12)


def test_bootstrap_repeats():
    data = {"a": list(sample(1)), "b": list(sample(2))}
    assert interquartile_mean(data) == interquartile_mean(dict(reversed(data.items())))


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """3,000 samples of eight: 95 % ± four standard errors of 0.4 %."""
    draws = np.random.default_rng(0).normal(0.7, 1.0, (3000, 8))
    found = [paired(list(line)) for line in draws]
    covered = np.mean([one.low <= 0.7 <= one.high for one in found])
    assert covered == pytest.approx(0.95, abs=0.016)
