"""Random subsets of the list of all pairs: walks by geometric jumps, fixed numbers."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from scipy.stats import chi2

from rade.graph.pairs import bernoulli_positions, fixed_positions

CPU = torch.device("cpu")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.5, 0.93])
def test_positions_are_bernoulli(rate):
    """One walk over 200,000 positions: χ² of the counts in 500 boxes, 2e-6, and the number of neighbors, 6e-5 (4 σ)."""
    total, boxes = 200_000, 500
    found = bernoulli_positions(total, rate, seeded(), CPU)
    assert bool((found.diff() > 0).all())
    assert 0 <= int(found[0]) <= int(found[-1]) < total
    count = torch.bincount(found // (total // boxes), minlength=boxes).double()
    expected = total / boxes * rate
    statistic = float(((count - expected).square() / (expected * (1 - rate))).sum())
    assert chi2.ppf(1e-6, boxes) < statistic < chi2.isf(1e-6, boxes)
    present = torch.zeros(total, dtype=torch.bool).index_fill_(0, found, True)
    together = int((present[1:] & present[:-1]).sum())
    variance = total * rate**2 * (1 - rate**2) + 2 * total * (rate**3 - rate**4)
    assert abs(together - (total - 1) * rate**2) < 4 * variance**0.5 + 1


@pytest.mark.parametrize(("total", "rate", "count"), [(0, 0.5, 0), (1, 1.0, 1), (10, 0.0, 0), (10, 1.0, 10)])
def test_extreme_walks(total, rate, count):
    assert torch.equal(bernoulli_positions(total, rate, seeded(), CPU), torch.arange(count))


@pytest.mark.parametrize("rate", [1e-12, 1e-15, 1e-300])
def test_tiny_rates_over_a_huge_space(rate):
    """5·10^13 pairs at 10^−12: about 50 successes (between 15 and 100 but for one seed in 10^6), no overflow."""
    total = 10**7 * (10**7 - 1) // 2
    found = bernoulli_positions(total, rate, seeded(1), CPU)
    assert bool(((found >= 0) & (found < total)).all())
    assert rate < 1e-12 or 15 <= len(found) <= 100


@pytest.mark.parametrize(("total", "count"), [(6, 2), (6, 4), (5, 1)])
def test_fixed_positions_are_uniform_subsets(total, count):
    """10,000 draws, all subsets equally likely, χ² at 10^−6; seed fixed."""
    generator, draws = seeded(), 10_000
    drawn = torch.stack([fixed_positions(total, count, generator, CPU) for _ in range(draws)])
    subsets = torch.tensor(list(combinations(range(total), count)))
    frequency = (drawn[:, None] == subsets).all(2).sum(0).double()
    assert int(frequency.sum()) == draws
    expected = draws / len(subsets)
    assert float(((frequency - expected).square() / expected).sum()) < chi2.isf(1e-6, len(subsets) - 1)


@pytest.mark.parametrize(("total", "count"), [(0, 0), (10, 0), (10, 10), (1000, 1), (1000, 999), (10**13, 50)])
def test_fixed_positions_have_the_exact_count(total, count):
    found = fixed_positions(total, count, seeded(), CPU)
    assert len(found) == count
    assert bool((found.diff() > 0).all())
    assert count == 0 or 0 <= int(found[0]) <= int(found[-1]) < total
