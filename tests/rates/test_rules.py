"""What rules do to the rates: GradNorm's steps, NoiseRatio's end, and how rules of one's own are held to their word.

Rates are buffers, read once for each change; a rate step is also tried on a whole model.
"""

import math
from typing import Any

import pytest
import torch
from test_regulariser import DATA_NORM, DENSITY, PENALTY, Problem
from torch.nn.functional import cross_entropy

from own_rule import Slow
from rade.distribution import Rates
from rade.rates.rate_step import move
from rade.rates.readout import Labelled
from rade.rates.rules import LARGEST_P, Constant, GradNorm, Logits, NoiseRatio, Rule, Seen
from rade.rates.state import RateState
from rade.testing import GRAPHS, undirected
from zoo import EDGES, LABELS, NORMALISED, X, training_step, wrapped

ROWS = torch.arange(20)

every_aggregator = pytest.mark.parametrize("aggregator", NORMALISED)


def stepped(rule: Rule | RateState, problem: Problem, data_norm: float, steps: int) -> RateState:
    state = rule if isinstance(rule, RateState) else RateState(rule, DENSITY)
    for _ in range(steps):
        move(state, Seen(problem.regulariser(), torch.tensor(data_norm)))
        assert 0.0 <= float(state.p) <= LARGEST_P
        assert 0.0 <= float(state.rho) <= 1.0 / DENSITY
    return state


def test_steps_are_those_of_adam_with_projection():
    """Thirty steps beside torch.optim.Adam on the naive objective, from a start where ρ runs into 0."""
    problem, weak, touched = Problem("symmetric", "path"), torch.tensor(1e-3, dtype=torch.double), False
    state = RateState(GradNorm(0.3, 0.05, penalty=PENALTY, lr=1e-2), DENSITY)
    p, rho = (torch.tensor(value, dtype=torch.double, requires_grad=True) for value in (0.3, 0.05))
    adam = torch.optim.Adam([p, rho], lr=1e-2)
    for _ in range(30):
        move(state, Seen(problem.regulariser(), weak))
        at = [rate.detach().clamp(min=1e-8).requires_grad_() for rate in (p, rho)]
        p.grad, rho.grad = torch.autograd.grad(problem.objective(*at, weak), at)
        adam.step()
        with torch.no_grad():
            p.clamp_(0.0, LARGEST_P)
            rho.clamp_(0.0, 1.0 / DENSITY)
        touched = touched or not bool(rho > 0)
        torch.testing.assert_close(torch.stack([state.p, state.rho]), torch.stack([p, rho]).detach(), rtol=0, atol=1e-9)
    assert touched


@pytest.mark.parametrize(("p", "rho"), [(0.0, 0.4), (0.3, 0.0), (0.0, 0.0)])
@every_aggregator
def test_a_rate_given_as_zero_stays_off(aggregator, p, rho):
    """Drop-only and add-only: the other rate moves, this one does not, however weak the regulariser."""
    state = stepped(GradNorm(p, rho), Problem(aggregator, "path"), 1e6, 5)
    assert (float(state.p) == 0.0) == (p == 0.0)
    assert (float(state.rho) == 0.0) == (rho == 0.0)
    assert int(state.skipped) == 0


@every_aggregator
def test_a_rate_that_adapted_to_zero_can_come_back(aggregator):
    """First far too strong a regulariser, both rates end at 0; then far too weak a one, both leave it."""
    problem = Problem(aggregator, "path")
    state = stepped(GradNorm(0.005, 0.005, penalty=0.0), problem, 1e-12, 15)
    assert (float(state.p), float(state.rho)) == (0.0, 0.0)
    for moment in (state.first, state.second):
        moment.zero_()  # forget the fall: what counts here is the slope at 0
    stepped(state, problem, 1e6, 15)
    assert float(state.p) > 0.0
    assert float(state.rho) > 0.0


@pytest.mark.parametrize(("max_p", "lr", "steps"), [(LARGEST_P, 0.5, 3), (0.95, 0.03, 5)])
@every_aggregator
def test_the_drop_rate_stays_below_its_bound(aggregator, max_p, lr, steps):
    rule = GradNorm(0.9, 0.3, penalty=0.0, lr=lr, max_p=max_p)
    state = stepped(rule, Problem(aggregator, "path"), 1e9, steps)
    assert float(state.p) == max_p
    assert int(state.skipped) == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_steps_that_are_not_finite_are_skipped_and_counted(bad):
    problem, state = Problem("sum", "path"), RateState(GradNorm(0.3, 0.4), DENSITY)
    before = {name: state.get_buffer(name).clone() for name in state.names}
    stepped(state, problem, bad, 3)
    assert int(state.skipped) == 3
    assert all(torch.equal(state.get_buffer(name), before[name]) for name in before if name != "skipped")
    stepped(state, problem, 1e6, 1)
    assert int(state.steps) == 1


def measured(noise: float, signal: float) -> Seen:
    """Logits of two rows and two classes with exactly this signal and noise."""
    mean = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]) * signal**0.5
    return Seen(logits=Logits(mean + noise**0.5, mean))


@pytest.mark.parametrize("start", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("nu", [0.1, 1.0])
def test_noise_over_signal_ends_at_nu(start, nu):
    """Where noise is the odds of p, as it is for drops, the odds end at ν from every start, without overshoot."""
    state, path = RateState(NoiseRatio(start, start, nu=nu), density=0.1), []
    for _ in range(600):
        move(state, measured(noise=float(state.p / (1.0 - state.p)), signal=1.0))
        path.append(float(state.p))
    end = nu / (1.0 + nu)
    assert path[-1] == pytest.approx(end, abs=0.005)
    assert min(start, end) - 0.03 <= min(path)
    assert max(path) <= max(start, end) + 0.03
    assert float(state.rho) == pytest.approx(float(state.p))


def broken(**methods: Any) -> Rule:
    """`Slow` with other methods."""
    found: Rule = type("Broken", (Slow,), methods)()
    return found


def test_a_rule_of_ones_own_decides_the_rates():
    state, average = RateState(Slow(0.3), DENSITY), 0.0
    own = state.average
    for norm in (1.0, 0.5, 2.0):
        move(state, Seen(data_norm=torch.tensor(norm)))
        average = 0.5 * average + 0.5 * norm
        assert state.rates.p == pytest.approx(average / (1 + average))
    assert state.average is own  # written in place: references to it stay live
    state = RateState(broken(step=lambda *_: {"p": 0.25, "rho": 0.25, "average": 1}), DENSITY)
    move(state, Seen())  # numbers are as good as tensors
    assert state.rates.p == 0.25


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "looks at more": ({"step": lambda self, state, density, seen: {"p": seen.logits}}, "looks at logits but does not"),
    "forgets a name": ({"step": lambda self, state, *_: {"p": 0.1, "rho": 0.1}}, "names of init, p, rho, average; got"),
    "returns nothing": ({"step": lambda *_: None}, "must return a dict of the next p, rho, average; got None"),
    "p of 1": ({"step": lambda self, state, *_: state | {"p": 1.0}}, r"drop rate p must lie in \[0, 1\), got 1"),
    "rho not finite": ({"step": lambda self, state, *_: state | {"rho": math.nan}}, "rho of at least 0, got nan"),
    "no rho": ({"init": lambda self: {"p": torch.zeros(())}}, "Broken.init must return p and rho, but rho is missing"),
    "reads": ({"reads": ("norm",)}, "must be one of 'regulariser', 'data_norm', 'logits', got 'norm'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rules_that_break_their_word_get_a_sentence(name):
    methods, sentence = BROKEN[name]
    with pytest.raises(ValueError, match=sentence):
        move(RateState(broken(**methods), DENSITY), Seen(data_norm=DATA_NORM))


def test_a_refused_step_changes_nothing():
    state = RateState(broken(step=lambda self, state, *_: state | {"average": 7.0, "p": 2.0}), DENSITY)
    with pytest.raises(ValueError, match="drop rate p"):
        move(state, Seen())
    assert float(state.average) == 0.0


def test_the_data_gradient_is_that_of_training_or_of_the_clean_loss():
    """At rates of nearly 0 both are the same, and so is the step."""
    found = []
    for data_gradient in ("training", "clean"):
        model = wrapped(rule=GradNorm(1e-9, 1e-9, data_gradient=data_gradient))
        training_step(model, X, EDGES, labels=LABELS, index=ROWS)
        if data_gradient == "clean":
            model.zero_grad()
        loss = Labelled(ROWS, loss=lambda logits: cross_entropy(logits[ROWS], LABELS[ROWS]))
        model.adapt(X, EDGES, labelled=loss)
        found.append(model.rate_state.first)
    torch.testing.assert_close(*found, rtol=1e-5, atol=0)


@pytest.mark.parametrize("variant", ["of", "ofs"])
def test_noise_is_that_of_the_labelled_rows_around_the_mean_over_views(variant):
    """A common shift of all classes is none."""
    rule = NoiseRatio()
    model = wrapped(variant=variant, rule=rule)
    away = (model.train()(X, EDGES) - model.eval()(X, EDGES))[ROWS].double().detach()
    model.train().adapt(X, EDGES, labelled=ROWS)
    noise = (away - away.mean(1, keepdim=True)).square().mean()
    torch.testing.assert_close(model.rate_state.noise, 4.0 / rule.horizon * noise, rtol=1e-4, atol=0)
    with pytest.raises(RuntimeError, match=r"with the arguments of that call; expected logits \[40, 3\], got none"):
        model.adapt(X, EDGES)


def test_rates_are_those_of_now_whichever_way_a_buffer_changes():
    """They are converted once for each change; evaluation always looks, since ``.data`` counts no change."""
    state, graph = RateState(Constant(0.2, 0.5), None), GRAPHS["path"]
    state.see(graph)
    assert state.rates_at(graph.density) is state.rates_at(graph.density)
    assert state.rates_at(graph.density) == Rates(0.2, 0.5 * graph.density)
    with torch.no_grad():
        state.p.fill_(0.3)
    assert state.rates.p == 0.3
    state.load_state_dict(RateState(Constant(0.4, 0.5), 0.5).state_dict())
    assert state.rates == Rates(0.4, 0.25)
    state.eval().p.data.fill_(0.1)
    assert state.rates.p == 0.1
    with torch.inference_mode():
        made = RateState(Constant(0.3, 0.5), 0.5).eval()
    assert made.rates_for(graph).p == 0.3  # its tensors count no changes at all


def test_the_density_is_that_of_the_first_graph_unless_given():
    state, first, other = RateState(Constant(0.2, 0.5), None), GRAPHS["batch"], GRAPHS["near-clique"]
    assert state.rates.q == 0.0
    assert "density=unknown until the first graph" in str(state)
    assert state.rates_at(0.4).q == 0.2
    for graph in (first, other):
        state.see(graph)
        assert state.rates_at(0.4).q == pytest.approx(0.5 * first.density)
    assert RateState(Constant(0.2, 3.0), 0.9).rates.q == 1.0
    state.reset()
    assert math.isnan(float(state.density))


def test_larger_graphs_than_in_training_get_as_many_additions_per_node():
    """By the mean size of those that came one by one; where graphs came in batches, q stays."""
    state, small, large = RateState(Constant(0.2, 0.5), 0.4), GRAPHS["path"], undirected([(0, 1)], 8)
    assert state.rates_for(large).q == 0.2  # nothing was counted
    state.count(small, whole=False)
    assert state.rates_for(small).q == 0.2
    assert state.rates_for(large).q == pytest.approx(0.2 * 5 / 8)
    state.count(large, whole=False)
    assert float(state.nodes) == 6.5
    for graph, whole in ((GRAPHS["batch"], True), (small, False)):
        state.count(graph, whole=whole)
        assert state.rates_for(large).q == 0.2


def test_rates_keep_their_precision_when_the_model_is_cast():
    state = RateState(Constant(0.123456789, 0.3), 0.1)
    assert state.to(torch.bfloat16).rates.p == 0.123456789
    assert {buffer.dtype for buffer in state.buffers()} == {torch.float64}
    assert state.to("meta").p.device.type == "meta"
