"""The rate rule: its slopes against autograd and finite differences, and what it does to the rates."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from looping import looped
from rade.control.evidence import Evidence
from rade.control.gradients import gradient_norm
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.control.regulariser import CleanPass, Regulariser, SeparableRegulariser, regulariser
from rade.control.rules import EPSILON, LARGEST_P, Constant, GradNorm, Pull
from rade.control.state import RateState
from rade.control.variance import LogitVariance
from rade.moments import Sent
from rade.testing import ALL, GRAPHS, Aggregator
from rade.testing.aggregators import EXACT, normal
from rade.view import Law, Rates, Variant

C = 3  # logits
DENSITY, PENALTY, DATA_NORM = 0.3, 0.7, torch.tensor(0.05, dtype=torch.double)
POINTS = [(0.3, 0.6), (0.8, 1.5), (0.05, 0.02)]  # (p, ρ)
every_variant = looped("variant", Variant)
every_point = looped(("p", "rho"), POINTS)
every_aggregator = pytest.mark.parametrize("aggregator", ALL, ids=str)


class Problem:
    """A small softmax model whose θ are two weight matrices, and an aggregator's variance of its logits."""

    def __init__(self, aggregator: Aggregator, name: str, variant: Variant, pooled: bool = False) -> None:
        graph = GRAPHS[name]
        self.parameters = [Parameter(normal(4, 6, seed=6)), Parameter(normal(C, 4, seed=7))]
        first, second = self.parameters
        rows = graph.num_graphs if pooled else graph.num_nodes
        logits = torch.tanh(normal(rows, 6, seed=8) @ first.t()) @ second.t()
        self.clean = CleanPass(logits, graph, Sent(aggregator.alone(graph), aggregator.messages(graph, C)))
        self.readout = Readout(pool="sum" if pooled else None)
        self.law = Law(graph, Rates(0.5, 0.5), variant)
        probability = logits.softmax(-1)
        self.weight = probability * (1.0 - probability)

    def variance(self, law: Law) -> LogitVariance:
        return self.readout.variance(self.clean.sent, law, torch.arange(len(self.weight)))

    def general(self) -> Regulariser:
        return Regulariser(self.weight, self.variance, self.law, self.parameters)

    def best(self) -> Regulariser:
        """The form that the library picks."""
        return regulariser(self.clean, self.readout, Labelled(), self.law, self.parameters)

    def objective(self, p: Tensor, rho: Tensor, data_norm: Tensor = DATA_NORM) -> Tensor:
        """J by the book: the gradient of R, its norm, the logarithm, the penalty; nothing shared with the library."""
        spread = self.variance(self.law.at(Rates(p, rho * DENSITY))).total
        r = 0.5 * (self.weight * spread).sum() / len(self.weight)
        gradients = torch.autograd.grad(r, self.parameters, create_graph=True)
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        return torch.log((norm + EPSILON) / (data_norm + EPSILON)).square() + PENALTY * rho.square()

    def slope(self, p: float, rho: float) -> tuple[Tensor, Tensor]:
        """J and its derivative by double-backward autograd."""
        at = [torch.tensor(value, dtype=torch.double, requires_grad=True) for value in (p, rho)]
        j = self.objective(*at)
        return j.detach(), torch.stack(torch.autograd.grad(j, at))


def rule(p: float, rho: float, penalty: float = PENALTY, lr: float = 1e-3) -> GradNorm:
    return GradNorm(p, rho, penalty=penalty, lr=lr)


def evidence(found: Regulariser, data_norm: Tensor) -> Evidence:
    return Evidence(found, data_norm)


def pulled(rule: GradNorm, found: Regulariser, data_norm: Tensor = DATA_NORM) -> Pull:
    return rule.pull(rule.init(), torch.tensor(DENSITY, dtype=torch.double), evidence(found, data_norm))


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@every_variant
@every_point
@every_aggregator
def test_slope_of_the_objective_is_double_backward_autograd(aggregator, p, rho, variant):
    """dJ/dp and dJ/dρ to 1e-6, on a graph with an isolated node; the general form and the one the library picks."""
    problem = Problem(aggregator, "isolated", variant)
    j, slope = problem.slope(p, rho)
    for form in (problem.general(), problem.best()):
        pull = pulled(rule(p, rho), form)
        assert difference(pull.slope, slope) <= 1e-6
        assert difference(pull.objective, j) <= 1e-6


@every_point
@every_aggregator
def test_slope_of_the_objective_is_that_of_finite_differences(aggregator, p, rho):
    """Central differences of J in p and ρ, step 1e-5: relative error below 1e-6.

    With attention the lattice may begin at another level at either end: 1e-4 is what can be asked.
    """
    problem, step = Problem(aggregator, "path", Variant.OF), 1e-5
    pull = pulled(rule(p, rho), problem.best())
    at = torch.tensor([p, rho], dtype=torch.double)
    ends = [[problem.objective(*(at + sign * step * unit)) for sign in (1, -1)] for unit in torch.eye(2).double()]
    expected = torch.stack([(up - down).detach() / (2 * step) for up, down in ends])
    assert difference(pull.slope, expected) <= (1e-6 if aggregator.heads is None else 1e-4)


@every_variant
@every_aggregator
def test_slope_holds_for_pooled_logits(aggregator, variant):
    """The same law at graph level, exact pooling, two graphs of different size."""
    problem = Problem(aggregator, "batch", variant, pooled=True)
    _, slope = problem.slope(0.3, 0.6)
    pull = pulled(rule(0.3, 0.6), problem.best())
    assert difference(pull.slope, slope) <= 1e-6


@every_variant
@every_point
@pytest.mark.parametrize("aggregator", [a for a in EXACT if a.name.endswith("sum")], ids=str)
def test_closed_form_of_sums_is_the_general_form(aggregator, p, rho, variant):
    """Two base gradients serve any rates; nothing is differentiated twice."""
    problem = Problem(aggregator, "near-clique", variant)
    assert isinstance(problem.best(), SeparableRegulariser)
    general, closed = (pulled(rule(p, rho), form) for form in (problem.general(), problem.best()))
    assert difference(closed.slope, general.slope) <= 1e-10
    assert difference(closed.norm, general.norm) <= 1e-10


def test_steps_are_those_of_adam_with_projection():
    """Thirty steps beside torch.optim.Adam on the naive objective, from a start where ρ runs into 0."""
    problem = Problem(EXACT[2], "path", Variant.OF)
    weak = torch.tensor(1e-3, dtype=torch.double)
    state = RateState(rule(0.3, 0.05, lr=1e-2), DENSITY)
    p, rho = (torch.tensor(value, dtype=torch.double, requires_grad=True) for value in (0.3, 0.05))
    adam = torch.optim.Adam([p, rho], lr=1e-2)
    touched = False
    for _ in range(30):
        state.step(evidence(problem.best(), weak))
        at = [rate.detach().clamp(min=1e-8).requires_grad_() for rate in (p, rho)]
        p.grad, rho.grad = torch.autograd.grad(problem.objective(*at, weak), at)
        adam.step()
        with torch.no_grad():
            p.clamp_(0.0, LARGEST_P)
            rho.clamp_(0.0, 1.0 / DENSITY)
        touched = touched or not bool(rho > 0)
        torch.testing.assert_close(torch.stack([state.p, state.rho]), torch.stack([p, rho]).detach(), rtol=0, atol=1e-9)
    assert touched


def stepped(rule: GradNorm | RateState, problem: Problem, data_norm: float, steps: int) -> RateState:
    state = rule if isinstance(rule, RateState) else RateState(rule, DENSITY)
    for _ in range(steps):
        state.step(evidence(problem.best(), torch.tensor(data_norm)))
        assert 0.0 <= float(state.p) <= LARGEST_P
        assert 0.0 <= float(state.rho) <= 1.0 / DENSITY
    return state


@every_aggregator
def test_rates_rise_when_the_regulariser_is_weak_and_fall_when_it_is_strong(aggregator):
    """G_reg ≪ G_data and G_reg ≫ G_data, a factor of 10⁶ either way, without penalty: each step is the Adam step."""
    problem = Problem(aggregator, "two-components", Variant.OF)
    weak = stepped(rule(0.3, 0.4, penalty=0.0), problem, 1e6, 10)
    strong = stepped(rule(0.3, 0.4, penalty=0.0), problem, 1e-9, 10)
    assert float(weak.p) == pytest.approx(0.31, abs=1e-3)
    assert float(strong.p) == pytest.approx(0.29, abs=1e-3)
    assert float(weak.rho) > 0.407
    assert float(strong.rho) < 0.393


def test_penalty_pulls_additions_down():
    """The same problem with growing λ: ρ ends lower, and with a large one at 0 although more noise is wanted."""
    problem = Problem(EXACT[0], "path", Variant.OF)
    ends = [float(stepped(rule(0.3, 0.5, lam, 1e-2), problem, 0.02, 80).rho) for lam in (0.0, 0.3, 3.0, 1e4)]
    print("ρ after 80 steps for λ = 0, 0.3, 3, 10⁴:", [round(end, 3) for end in ends])
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > ends[2] + 0.1
    assert ends[3] < 0.02


def test_equal_norms_are_a_fixed_point():
    """At G_reg = G_data and λ = 0 nothing pulls."""
    problem = Problem(EXACT[0], "path", Variant.OF)
    norm = pulled(rule(0.3, 0.4, penalty=0.0), problem.best()).norm
    pull = pulled(rule(0.3, 0.4, penalty=0.0), problem.best(), norm)
    assert float(pull.objective) == 0.0
    assert float(pull.slope.abs().max()) == 0.0


@pytest.mark.parametrize(("p", "rho"), [(0.0, 0.4), (0.3, 0.0), (0.0, 0.0)])
@every_aggregator
def test_a_rate_given_as_zero_stays_off(aggregator, p, rho):
    """Drop-only and add-only: the other rate moves, this one does not, however weak the regulariser."""
    state = stepped(rule(p, rho), Problem(aggregator, "path", Variant.OF), 1e6, 5)
    assert (float(state.p) == 0.0) == (p == 0.0)
    assert (float(state.rho) == 0.0) == (rho == 0.0)
    assert int(state.skipped) == 0


@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_a_rate_that_adapted_to_zero_can_come_back(aggregator):
    """First far too strong a regulariser, both rates end at 0; then far too weak a one, both leave it."""
    problem = Problem(aggregator, "path", Variant.OF)
    state = stepped(rule(0.005, 0.005, penalty=0.0), problem, 1e-12, 15)
    assert (float(state.p), float(state.rho)) == (0.0, 0.0)
    for moment in (state.first, state.second):
        moment.zero_()  # forget the fall: what counts here is the slope at 0
    stepped(state, problem, 1e6, 15)
    assert float(state.p) > 0.0
    assert float(state.rho) > 0.0


@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_drop_rate_stays_below_one(aggregator):
    """Steps of 0.5 throw it against its bound."""
    state = stepped(rule(0.9, 0.3, penalty=0.0, lr=0.5), Problem(aggregator, "path", Variant.OF), 1e9, 3)
    assert float(state.p) == LARGEST_P
    assert int(state.skipped) == 0


def test_drop_rate_stays_below_its_bound():
    problem = Problem(EXACT[0], "path", Variant.OF)
    state = stepped(GradNorm(0.85, 0.3, penalty=0.0, lr=0.03, max_p=0.9), problem, 1e9, 5)
    assert float(state.p) == 0.9
    assert float(state.rho) > 0.3


def test_add_rate_stays_a_probability():
    """Beyond q = ½ more additions mean less variance: too strong a regulariser drives q up, and it stops at 1."""
    state = stepped(rule(0.3, 3.0, penalty=0.0, lr=0.5), Problem(EXACT[0], "path", Variant.OF), 1e-9, 3)
    assert float(state.rho) == 1.0 / DENSITY
    assert float(state.rates.q) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_steps_that_are_not_finite_are_skipped_and_counted(bad):
    problem = Problem(EXACT[0], "path", Variant.OF)
    state = RateState(rule(0.3, 0.4), DENSITY)
    before = {name: value.clone() for name, value in state.state_dict().items()}
    stepped(state, problem, bad, 3)
    assert int(state.skipped) == 3
    unchanged = [name for name in before if name not in ("skipped", "nodes", "calls")]
    assert all(torch.equal(state.state_dict()[name], before[name]) for name in unchanged)
    stepped(state, problem, 1e6, 1)
    assert int(state.steps) == 1


def test_a_vanishing_regulariser_is_no_trouble():
    """All logits certain: w = 0, G_reg = 0; the slope stays finite and the rates in range."""
    problem = Problem(EXACT[0], "path", Variant.OF)
    problem.clean = CleanPass(
        1e3 * torch.eye(C).double()[torch.arange(5) % C] + 0.0 * problem.clean.logits,
        problem.clean.graph,
        problem.clean.sent,
    )
    state = stepped(rule(0.3, 0.4), problem, 1.0, 3)
    assert int(state.skipped) == 0


def test_constant_rates_stay_as_given():
    state = RateState(Constant(0.3, 0.4), DENSITY)
    state.step(evidence(Problem(EXACT[0], "path", Variant.OF).best(), DATA_NORM))
    assert (float(state.p), float(state.rho)) == (0.3, 0.4)
    assert state.rates.q == pytest.approx(0.4 * DENSITY)


def test_gradient_norm_is_that_of_all_gradients_together():
    parameters = [Parameter(normal(3, 4)), Parameter(normal(2)), Parameter(normal(5))]
    parameters[0].grad, parameters[1].grad = normal(3, 4, seed=1), normal(2, seed=2)
    together = torch.cat([parameters[0].grad.flatten(), parameters[1].grad])
    torch.testing.assert_close(gradient_norm(parameters), together.norm())
