"""Sums over all nodes of a graph, against dense matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import leaky_relu

from rade.moments.attention import prefix
from rade.moments.attention.all_nodes import AttentionKernel, AttentionSums

SIZES = [1, 7, 40, 0, 130]


@dataclass
class Scores:
    s: Tensor
    t: Tensor
    batch: Tensor
    slope: float = 0.2

    @property
    def sums(self) -> AttentionSums:
        return AttentionSums(self.s, self.t, self.slope, self.batch)

    def weights(self, shift: Tensor) -> Tensor:
        """w_ij within a graph, else 0: [n, n, H]."""
        w = (leaky_relu(self.s + self.t[:, None], self.slope) - shift[:, None]).exp()
        return w * self.same[..., None]

    @property
    def same(self) -> Tensor:
        return self.batch[:, None] == self.batch

    @property
    def largest(self) -> Tensor:
        s = torch.where(self.same[..., None], self.s, -torch.inf)
        return leaky_relu(s.amax(1) + self.t, self.slope)


def scores(sizes: list[int], heads: int, scale: float = 1.0, slope: float = 0.2, seed: int = 0) -> Scores:
    g = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    s, t = (scale * torch.randn(len(batch), heads, generator=g, dtype=torch.float64) for _ in range(2))
    return Scores(s, t, batch, slope)


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def relative(value: Tensor, matrix: Tensor, x: Tensor, of: Tensor | None = None) -> Tensor:
    """Error against Σ_j matrix_ij x_j, in units of Σ|terms| (of `of` where given)."""
    scale = torch.einsum("ijh,jhf->ihf", (matrix if of is None else of).abs(), x.abs())
    return ((value - torch.einsum("ijh,jhf->ihf", matrix, x)).abs() / scale).max()


def bent(m: Tensor, power: int) -> Callable[[Tensor], Tensor]:
    """The shape that the moments of attention have: poles of order one and three (two and four) at w = −m."""
    return lambda w: (w + m) ** -power + 0.3 * power * m**2 * (w + m) ** (-power - 2)


@pytest.mark.parametrize("slope", [0.2, 0.0, 1.0])
@pytest.mark.parametrize("power", range(-6, 8))
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_power_sums_are_dense_sums(power, slope, scale):
    case = scores(SIZES, heads=3, scale=scale, slope=slope)
    shift = leaky_relu(case.s + case.t, slope)
    x, cut = normal(*case.s.shape, 5), scale * normal(*case.s.shape, seed=2)
    w = torch.where(case.same[..., None], case.weights(shift) ** power, 0.0)
    assert relative(case.sums.power_sum(power, x, shift), w, x) < 1e-9
    below = w * (case.s < cut[:, None])
    assert relative(case.sums.power_sum(power, x, shift, below=cut), below, x, of=w) < 1e-9


@pytest.mark.parametrize("power", [-7, -1, 1, 7])
def test_wide_scores_do_not_overflow(power):
    """Uniform on ±40: weights raised to a power span 240 orders of magnitude."""
    g = torch.Generator().manual_seed(0)
    s, t = (80 * torch.rand(300, 1, generator=g, dtype=torch.float64) - 40 for _ in range(2))
    case = Scores(s.requires_grad_(), t.requires_grad_(), torch.zeros(300, dtype=torch.long))
    x, shift = normal(300, 1, 2), case.largest.detach()
    out = case.sums.power_sum(power, x, shift)
    assert relative(out, case.weights(shift) ** power, x) < 1e-9
    kernel = AttentionKernel(case.sums, bent(shift.new_tensor(0.1), 1), torch.full_like(shift, 0.1), 1, shift)
    gradients = torch.autograd.grad(out.sum() + kernel.apply(x).sum(), (s, t))
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("slope", [0.2, 0.0])
def test_apply_is_the_sum_of_at(power, scale, slope):
    """Over all pairs of five graphs; a split from far below to far above all weights must do as well."""
    case = scores(SIZES, heads=2, scale=scale, slope=slope)
    shift, x = case.largest, torch.cat([torch.ones(*case.s.shape, 1), normal(*case.s.shape, 3)], 2)
    split = (3 * normal(*case.s.shape, seed=4)).exp()
    kernel = AttentionKernel(case.sums, bent(split, power), split, power, shift)
    target, source = case.same.nonzero().T
    dense = x.new_zeros(*case.same.shape, 2).index_put((target, source), kernel.at(target, source))
    assert relative(kernel.apply(x), dense, x) < 1e-11 * scale  # exponents are rounded in proportion to their size


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("ratio", [0.0, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5])
def test_every_pair_is_within_a_third_of_a_percent(power, ratio):
    """σ² = ratio · M², as a single heavy non-neighbor makes it; weights from 10^−8 M to 10^8 M."""
    logs = torch.linspace(-18.4, 18.4, 2000, dtype=torch.float64)[:, None]
    zero = torch.zeros_like(logs)
    sums = AttentionSums(logs, zero, 1.0, torch.zeros(2000, dtype=torch.long))

    def phi(w: Tensor) -> Tensor:
        return (1 + w) ** -power + 0.5 * power * (power + 1) * ratio * (1 + w) ** (-power - 2)

    kernel = AttentionKernel(sums, phi, torch.ones_like(logs), power, zero)
    value = kernel.at(torch.zeros(2000, dtype=torch.long), torch.arange(2000))
    torch.testing.assert_close(value, logs.exp() ** power * phi(logs.exp()), rtol=3e-3, atol=0.0)


def normal_scores(g: torch.Generator) -> Tensor:
    return torch.randn(500, 1, generator=g, dtype=torch.float64)


def student_scores(g: torch.Generator) -> Tensor:
    """2 · Student-t with three degrees of freedom."""
    z = torch.randn(500, 4, generator=g, dtype=torch.float64)
    return 2 * z[:, :1] / z[:, 1:].square().mean(1, keepdim=True).sqrt()


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("law", [normal_scores, student_scores])
@pytest.mark.parametrize("seed", range(3))
def test_error_on_nonneighbors_is_below_one_percent(law, power, seed):
    """p = ρ = ½ on a random graph of mean degree 4; the paper's estimate from 256 samples is shown beside."""
    g = torch.Generator().manual_seed(seed)
    case = Scores(law(g), law(g), torch.zeros(500, dtype=torch.long))
    upper = (torch.rand(500, 500, generator=g) < 4 / 499).triu(1)
    edge = (upper | upper.T)[..., None]
    other = ~edge & ~torch.eye(500, dtype=torch.bool)[..., None]
    shift, p, q = case.largest, 0.5, 0.5 * 4 / 499
    w = case.weights(shift)
    own = w.diagonal().T

    def moments(nonedge: Tensor) -> tuple[Tensor, Tensor]:
        """M and σ² with Σ over non-edges weighted by `nonedge`."""
        m = own + (1 - p) * (w * edge).sum(1) + q * (w * nonedge).sum(1)
        return m, p * (1 - p) * (w**2 * edge).sum(1) + q * (1 - q) * (w**2 * nonedge).sum(1)

    def phi(v: Tensor, m: Tensor, variance: Tensor) -> Tensor:
        d, rest = m + (1 - q) * v, variance - q * (1 - q) * v**2
        return d**-power + 0.5 * power * (power + 1) * rest * d ** (-power - 2)

    m, variance = moments(other)
    exact = w**power * phi(w.transpose(0, 1), m, variance).transpose(0, 1) * other
    kernel = AttentionKernel(case.sums, lambda v: phi(v, m, variance), m, power, shift)
    target, source = (~other[..., 0]).nonzero().T
    drawn = torch.multinomial(other[..., 0].double(), 256, replacement=True, generator=g)
    counts = torch.zeros(500, 500).double().scatter_add_(1, drawn, torch.ones(500, 256).double())[..., None]
    counts *= other.sum(1, keepdim=True) / 256
    guess = moments(counts)
    sampled = w**power * phi(w.transpose(0, 1), *guess).transpose(0, 1) * counts
    for x in (torch.ones(500, 1, 1).double(), normal(500, 1, 8)):
        taken = kernel.at(target, source)[..., None] * x[source]
        value = kernel.apply(x) - torch.zeros_like(x).index_add(0, target, taken)
        error = relative(value, exact, x)
        estimate = relative(torch.einsum("ijh,jhf->ihf", sampled, x), exact, x)
        print(f"{law.__name__} power {power}, seed {seed}: error {error:.1e}, with 256 samples {estimate:.1e}")
        assert error < 0.01


def test_gradients_of_both_orders(monkeypatch: pytest.MonkeyPatch):
    """Of power sums and kernel in s, t, shift, split and x, in one piece and in recomputed slices."""
    # gradgradcheck draws directions: with its step of 1e-6 four of six seeds differ by up to 5e-4, with 1e-5 none does.
    torch.manual_seed(0)
    case = scores([1, 4], heads=1)
    shift, x, split = case.largest, normal(5, 1, 2), normal(5, 1, seed=3).exp()
    inputs = [v.requires_grad_() for v in (case.s, case.t, shift, split, x)]

    def kernel(s: Tensor, t: Tensor, shift: Tensor, split: Tensor, x: Tensor) -> Tensor:
        sums = AttentionSums(s, t, 0.2, case.batch)
        return AttentionKernel(sums, bent(2 * split, 1), split, 1, shift).apply(x)

    def powers(s: Tensor, t: Tensor, shift: Tensor, x: Tensor) -> Tensor:
        sums = AttentionSums(s, t, 0.2, case.batch)
        return torch.cat([sums.power_sum(k, x, shift) for k in (-2, 1)], 2)

    assert gradcheck(powers, [*inputs[:3], x])
    assert gradgradcheck(powers, [*inputs[:3], x], fast_mode=True)
    assert gradcheck(kernel, inputs)
    assert gradgradcheck(kernel, inputs, fast_mode=True, eps=1e-5)
    assert gradcheck(kernel, inputs, fast_mode=True, check_forward_ad=True)
    monkeypatch.setattr(prefix, "BUDGET", 1)
    assert gradcheck(kernel, inputs, fast_mode=True)
    assert gradgradcheck(kernel, inputs, fast_mode=True, eps=1e-5)


def test_result_keeps_the_precision_of_x():
    case = scores([30], heads=1)
    kernel = AttentionKernel(case.sums, bent(case.largest.exp(), 1), case.largest.exp(), 1, case.largest)
    x = normal(30, 1, 4)
    torch.testing.assert_close(kernel.apply(x.float()), kernel.apply(x).float(), rtol=1e-5, atol=1e-6)
    assert case.sums.power_sum(1, x.float(), case.largest).dtype == torch.float32


def test_a_falling_slope_is_refused():
    with pytest.raises(ValueError, match="slope of LeakyReLU must be >= 0"):
        scores([3], heads=1, slope=-0.1).sums  # noqa: B018
