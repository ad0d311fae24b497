"""R, the norm of its gradient, and its slopes in the rates: against autograd, finite differences and closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rates_problem import AGGREGATORS, DATA_NORM, DENSITY, PENALTY, C, Problem, normal
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, huber_loss, l1_loss, mse_loss

from rade.distribution import Distribution, Rates, Variant
from rade.rates.readout import Labelled, Readout, loss_curvature
from rade.rates.regulariser import CleanPass, NoGradient, clean_gradient_norm, gradient_norm
from rade.rates.rules import GradNorm, Seen
from rade.rates.variance import LogitMessages

POINTS = [(0.3, 0.6), (0.8, 1.5), (0.05, 0.02)]  # (p, ρ)
every_variant = pytest.mark.parametrize("variant", Variant)
every_point = pytest.mark.parametrize(("p", "rho"), POINTS)
every_aggregator = pytest.mark.parametrize("aggregator", AGGREGATORS)


def rates(p: float, q: float, gradients: bool = True) -> Rates:
    return Rates(*(torch.tensor(rate, dtype=torch.double, requires_grad=gradients) for rate in (p, q)))


def objective(problem: Problem, p: float, rho: float, by_autograd: bool) -> tuple[Tensor, Tensor]:
    """J and its slope, as the rule has them."""
    found = problem.regulariser()
    rule = GradNorm(p, rho, penalty=PENALTY)
    seen = Seen(replace(found, factors=None) if by_autograd else found, DATA_NORM)
    return rule.objective(rule.init(), torch.tensor(DENSITY, dtype=torch.double), seen)


@pytest.mark.parametrize("pool", [None, "sum", "mean"])
@every_variant
@every_point
@every_aggregator
def test_the_slope_of_the_objective_is_double_backward_autograd(aggregator, p, rho, variant, pool):
    """dJ/dp and dJ/dρ, nodes and pooled graphs; the general form and the one that the library picks."""
    problem = Problem(aggregator, "isolated" if pool is None else "batch", variant, pool=pool)
    at = [torch.tensor(value, dtype=torch.double, requires_grad=True) for value in (p, rho)]
    expected = problem.objective(*at)
    slope = torch.stack(torch.autograd.grad(expected, at))
    for by_autograd in (False, True):
        value, found = objective(problem, p, rho, by_autograd)
        torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=0)
        torch.testing.assert_close(found, slope, rtol=1e-6, atol=1e-6 * float(slope.abs().max()))


def test_rows_and_known_labels_are_those_of_the_loss():
    """R over some rows, with some labels unknown and a factor for this process, written down."""
    problem = Problem("symmetric", "path")
    rows, known = torch.tensor([2, 0]), torch.tensor([[True, False, True], [True, True, False]])
    found = problem.regulariser(Labelled(rows, known, weight=3.0))(Rates(0.3, 0.1))
    chance = problem.clean.logits[rows].softmax(1)
    total = problem.readout.variance(problem.clean.messages, problem.distribution.at(Rates(0.3, 0.1)), rows).total
    torch.testing.assert_close(found, 3.0 * 0.5 * (known * chance * (1 - chance) * total).sum() / 2)
    # Logits of some nodes only: rows are counted among these.
    nodes, some = torch.tensor([3, 2, 0]), problem.clean.logits[[3, 2, 0]]
    problem.clean = CleanPass(some, problem.graph, problem.clean.messages, nodes)
    again = problem.regulariser(Labelled(torch.tensor([1, 2]), known, weight=3.0))
    torch.testing.assert_close(again(Rates(0.3, 0.1)), found)


@every_aggregator
def test_the_gradient_of_a_squared_error_is_that_of_the_variance(aggregator):
    """½ mean Σ_c Var(δ_ic) with derivatives in what is sent; slopes by finite differences."""
    problem = Problem(aggregator, "path", task="regression")
    weight = Parameter(normal(C, C, seed=2))
    sent = LogitMessages(problem.clean.messages.coefficients, normal(4, C, seed=9) @ weight.t())
    problem.clean, problem.parameters = CleanPass(problem.clean.logits, problem.graph, sent), [weight]
    found, step = problem.regulariser(), 1e-5
    total = problem.readout.variance(sent, Distribution(problem.graph, Rates(0.3, 0.1)), torch.arange(4)).total
    (expected,) = torch.autograd.grad(0.5 * total.sum() / 4, weight, retain_graph=True)
    norm, slopes = found.norm(rates(0.3, 0.1))
    torch.testing.assert_close(norm, expected.norm())
    by_p, by_q = (
        (found.norm(rates(0.3 + dp, 0.1 + dq))[0] - found.norm(rates(0.3 - dp, 0.1 - dq))[0]) / (2 * step)
        for dp, dq in ((step, 0.0), (0.0, step))
    )
    torch.testing.assert_close(slopes, torch.stack([by_p, by_q]), rtol=1e-5, atol=1e-8)


Y = normal(4, C, seed=5)
CONSTANT = {
    "squared": lambda z, rows: mse_loss(z, Y[rows], reduction="sum"),
    "absolute": lambda z, rows: l1_loss(z, Y[rows], reduction="sum"),
    "huber": lambda z, rows: huber_loss(z, Y[rows], reduction="sum"),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_curvature_that_does_not_depend_on_the_model_is_refused(name):
    problem = Problem("symmetric", "path", loss=CONSTANT[name])
    with pytest.raises(ValueError, match=r"curvature of this loss does not depend on the model .*Readout\(task='regr"):
        problem.regulariser()


def test_a_loss_of_ones_own_has_the_curvature_of_its_task():
    """Cross-entropy by automatic differentiation is the softmax's closed form, in R and in the slopes of its norm."""
    said = Problem("mean", "path", loss=lambda z, rows: cross_entropy(z, rows % C, reduction="sum"))
    known, at = Problem("mean", "path"), rates(0.3, 0.1)
    for one, other in zip(said.regulariser().norm(at), known.regulariser().norm(at)):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def links(z: Tensor) -> Tensor:
    pairs, truth = torch.tensor([[0, 1, 2, 0, 3], [1, 2, 3, 2, 1]]), torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0]).double()
    return binary_cross_entropy_with_logits((z[pairs[0]] * z[pairs[1]]).sum(1), truth, reduction="sum")


def test_rows_that_share_terms_have_the_diagonal_as_their_mean_and_views_go_on():
    """Against the whole second derivative: 400 draws of signs, five standard errors; the generator stays."""
    z, rows = normal(4, 1), torch.arange(4)
    diagonal = torch.func.hessian(lambda v: links(v[:, None]))(z[:, 0]).diagonal()
    generators = [torch.Generator().manual_seed(seed) for seed in range(400)]
    states = [generator.get_state() for generator in generators]
    found = torch.stack([loss_curvature(lambda v, _: links(v), z, rows, g)[:, 0] for g in generators]).detach()
    assert bool(((found.mean(0) - diagonal).abs() <= 5 * found.std(0) / 20 + 1e-9).all())
    assert all(torch.equal(g.get_state(), state) for g, state in zip(generators, states))


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda z, rows: cross_entropy(z, torch.arange(9) % C), r"called with the logits \[4, 3\] of some rows"),
        (lambda z, rows: cross_entropy(z, rows % C, reduction="none"), r"a number, got shape \[4\]; with reduction"),
    ],
)
def test_a_loss_that_is_no_sum_of_its_rows_is_told(loss, sentence):
    with pytest.raises(ValueError, match=sentence):
        Readout(loss=loss).curvature(normal(4, C), torch.arange(4))


def test_gradient_norms_are_those_of_all_gradients_together():
    parameters = [Parameter(normal(3, 4)), Parameter(normal(2)), Parameter(normal(5))]
    with pytest.raises(NoGradient, match=r"after loss.backward\(\) and before zero_grad\(\)"):
        gradient_norm(parameters)
    parameters[0].grad, parameters[1].grad = normal(3, 4, seed=1), normal(2, seed=2)
    together = torch.cat([parameters[0].grad.flatten(), parameters[1].grad])
    torch.testing.assert_close(gradient_norm(parameters), together.norm())
    parameters[0].grad, parameters[1].grad = torch.zeros(3, 4).double(), None
    with pytest.warns(UserWarning, match="all gradients that adapt.. found are zero"):
        gradient_norm(parameters)
    logits = parameters[0].sum(1) * 2.0
    found = clean_gradient_norm(logits, Labelled(loss=lambda z: z.sum(), weight=0.5), parameters)
    assert float(found) == pytest.approx(12**0.5)
    with pytest.raises(ValueError, match="needs the loss on the input graph"):
        clean_gradient_norm(logits, Labelled(), parameters)
