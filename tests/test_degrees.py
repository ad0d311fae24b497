"""Moments of random degrees against the exact sum over both binomials."""

from __future__ import annotations

import numpy as np
import torch
from rade.view import Correction, Law, Rates
from scipy.stats import binom
from torch import Tensor

from looping import looped
from rade.moments.degrees import (
    EDGE,
    LOOP,
    NONEDGE,
    RandomDegree,
    degree_moments,
    degree_tables,
    delta,
    exact,
    monte_carlo,
)
from rade.testing import GRAPHS

POWERS = (0.5, 1.0, 2.0)
DEGREES = (1, 2, 3, 10, 100, 1_000, 10_000)


def law(p: float | Tensor, q: float | Tensor, **options) -> Law:
    correction, generator = Correction(**options), torch.Generator().manual_seed(0)
    return Law(GRAPHS["batch"], Rates(p, q), correction=correction, generator=generator)


def support(count: int, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of a binomial that carry all but 10^−17 of its mass, and their probabilities."""
    mean, deviation = count * chance, (count * chance * (1 - chance)) ** 0.5
    reach = 12 * deviation + 40
    values = np.arange(max(0, int(mean - reach)), min(count, int(mean + reach)) + 1)
    chances = binom.pmf(values, count, chance)
    return values, chances / chances.sum()


def summed(c: float, a: int, b: int, p: float, q: float) -> list[float]:
    """E[X^−s] by the law of the sum of the two binomials, for each power."""
    (kept, first), (added, second) = support(a, 1 - p), support(b, q)
    chances = np.convolve(first, second)
    x = c + kept[0] + added[0] + np.arange(len(chances))
    return [float((chances * x**-s).sum()) for s in POWERS]


@looped("rho", [0.0, 0.5, 1.0, 3.0])
@looped("p", [0.0, 0.1, 0.5, 0.9, 0.99])
@looped("n", [12_000, 10**7])
def test_exact_moments_are_the_exact_sum(n, p, rho):
    """Degrees 1 … 10,000, c = 1 and 2, q = ρ · mean degree / (n−1): relative error at most 1e-7 (found: 1e-12)."""
    worst = 0.0
    for mean_degree in (4, 5_000):
        q = rho * mean_degree / (n - 1)
        if q > 1:
            continue
        for c in (1.0, 2.0):
            a = torch.tensor(DEGREES, dtype=torch.double)
            found = exact(RandomDegree(c, a, n - 1 - a), law(p, q), POWERS)
            for k, degree in enumerate(DEGREES):
                for value, expected in zip(found, summed(c, degree, n - 1 - degree, p, q)):
                    worst = max(worst, abs(float(value[k]) / expected - 1))
    print(f"n={n:.0e}, p={p}, ρ={rho}: largest relative error {worst:.1e}")
    assert worst <= 1e-7


@looped("n", range(1, 7))
@looped(("p", "q"), [(0.0, 0.0), (0.0, 1.0), (0.3, 0.2), (0.99, 1.0), (0.5, 0.0)])
def test_tiny_graphs(n, p, q):
    """Every split of up to six other nodes into neighbors and non-neighbors, a = 0 and b = 0 included."""
    a = torch.arange(n + 1, dtype=torch.double)
    for c in (1.0, 2.0):
        found = exact(RandomDegree(c, a, n - a), law(p, q), POWERS)
        expected = torch.tensor([summed(c, k, n - k, p, q) for k in range(n + 1)], dtype=torch.double).t()
        torch.testing.assert_close(torch.stack(found), expected, rtol=1e-11, atol=0)


@looped("method", [exact, delta])
@looped(("p", "q"), [(0.3, 0.2), (0.5, 0.001), (0.9, 0.01)])
def test_derivatives_in_the_rates(method, p, q):
    """Reverse and forward mode, first and second order, against finite differences."""
    degree = RandomDegree(2.0, torch.tensor([0.0, 1, 5, 40]).double(), torch.tensor([7.0, 0, 100, 60]).double())
    rates = tuple(torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (p, q))

    def moments(p: Tensor, q: Tensor) -> Tensor:
        return torch.stack(method(degree, law(p, q), POWERS))

    eps = 1e-7 if q > 0.005 else 1e-8  # finite differences must stay within the rates
    assert torch.autograd.gradcheck(moments, rates, eps=eps, atol=1e-6, rtol=1e-4, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(moments, rates, eps=eps, atol=1e-5, rtol=1e-3)


@looped(("p", "q"), [(0.0, 1.0), (0.0, 0.0), (0.5, 1.0), (0.0, 0.5)])
def test_no_rate_and_no_neighbor_give_a_number(p, q):
    """a = 0 with p = 0 and b = 0 with q = 1 are 0·∞ if written carelessly: values and derivatives are finite."""
    count = torch.tensor([0.0, 1, 1000]).double()
    a, b = (v.flatten() for v in torch.meshgrid(count, count, indexing="ij"))
    rates = [torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (p, q)]
    values = torch.stack(exact(RandomDegree(1.0, a, b), law(*rates), POWERS))
    gradients = torch.autograd.grad(values.sum(), rates)
    assert values.isfinite().all()
    assert all(gradient.isfinite() for gradient in gradients)
    # dE/dp at p = 0: dropping one of a certain neighbors, each with X one smaller.
    if p == q == 0.0:
        x = 1 + a
        slope = (a * ((x - 1).clamp(min=1).pow(-1) - x.pow(-1))).sum()
        (found,) = torch.autograd.grad(exact(RandomDegree(1.0, a, b), law(*rates), (1.0,))[0].sum(), rates[:1])
        torch.testing.assert_close(found, slope, rtol=1e-9, atol=0)


def test_delta_moments_err_as_stated():
    """The paper's expansion at Cora's sizes (n = 2708, degree 1 … 8, p = ρ = ½): the errors that `exact` removes."""
    a, q = torch.arange(1.0, 9.0).double() - 1, 0.5 * 2 * 5278 / (2708 * 2707)
    degree = RandomDegree(2.0, a, 2707 - 1 - a)
    right, off = exact(degree, law(0.5, q), POWERS), delta(degree, law(0.5, q), POWERS)
    for power, one, other in zip(POWERS, right, off):
        print(f"E[X^-{power}]: expansion off by {100 * float((other / one - 1).abs().max()):.2f} %")
        assert 1e-4 < float((other / one - 1).abs().max()) < 0.1


@looped("samples", [1_000, 100_000])
def test_monte_carlo_converges(samples):
    """The mean of N draws lies within 5 standard errors: false alarms 6e-7 per value, 24 values; seed fixed."""
    a = torch.tensor([0.0, 3, 50, 1000]).double()
    degree = RandomDegree(1.0, a, 2000 - a)
    right = exact(degree, law(0.4, 0.002), (*POWERS, 4.0))
    drawn = monte_carlo(degree, law(0.4, 0.002, samples=samples), POWERS)
    for k, value in enumerate(drawn):
        second = right[(1, 2, 3)[k]]  # E[X^−2s]
        deviation = ((second - right[k].square()).clamp(min=0) / samples).sqrt()
        assert bool(((value - right[k]).abs() <= 5 * deviation + 1e-12).all())


def test_moments_are_evaluated_once_per_degree_and_gathered():
    """A batch of graphs of different sizes: nodes of equal degree in graphs of different size differ."""
    batch = GRAPHS["batch"]
    (found,) = degree_moments(law(0.3, 0.2), 2.0, EDGE, (0.5,), torch.double)
    expected = [summed(2.0, d - 1, n - 1 - d, 0.3, 0.2)[0] for d, n in zip(batch.degree.tolist(), batch.size.tolist())]
    per_node = found[batch.degree_classes[2]]
    torch.testing.assert_close(per_node, torch.tensor(expected, dtype=torch.double), rtol=1e-11, atol=0)
    assert len(batch.degree_classes[0]) == 4


@looped(("p", "q"), [(0.0, 0.0), (0.5, 0.1), (0.99, 0.001), (0.3, 1.0)])
def test_what_is_asked_for_together_is_as_if_asked_for_alone(p, q):
    """Edges, non-edges and loops look at common nodes of the rule; values and derivatives agree with those apart."""
    given = ((2.0, EDGE), (2.0, NONEDGE), (1.0, LOOP))
    rates = [torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (p, q)]
    together = degree_tables(law(*rates), given, POWERS, torch.double)
    for of, (c, spent) in zip(together, given):
        for one, other in zip(of, degree_moments(law(*rates), c, spent, POWERS, torch.double)):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=0)
            slopes = (torch.autograd.grad(value.sum(), rates, retain_graph=True) for value in (one, other))
            torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-12)


def test_an_integral_serves_all_laws_at_its_rates():
    """The rate step after a training step finds what that has computed; other rates find their own."""
    first = degree_tables(law(0.3, 0.2), ((2.0, EDGE),), (0.5,), torch.double)[0][0]
    again = degree_tables(law(0.3, 0.2), ((2.0, EDGE),), (0.5,), torch.double)[0][0]
    other = degree_tables(law(0.4, 0.2), ((2.0, EDGE),), (0.5,), torch.double)[0][0]
    assert first.data_ptr() == again.data_ptr()
    assert bool((first != other).any())
