"""Rates as buffers, read once for each change; and a rate step, which makes the passes that its rule needs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from rates_problem import DENSITY, C, Problem
from torch.nn.functional import cross_entropy

from rade.distribution import Rates, Variant
from rade.rates.rate_step import rate_step
from rade.rates.readout import Labelled
from rade.rates.rules import Constant, GradNorm, NoiseRatio, Rule, Seen
from rade.rates.state import RateState
from rade.testing import GRAPHS, undirected
from rade.testing.aggregators import normal

LABELS = torch.arange(5) % C


def run(problem: Problem, rule: Rule, labelled: Labelled, trained: torch.Tensor | None) -> tuple[RateState, list[str]]:
    """One step, and the passes that it made."""
    state, made, logits = RateState(rule, DENSITY), [], problem.clean.logits

    def made_by(name, value):
        return lambda *_: (made.append(name), value)[1]

    passes = SimpleNamespace(
        clean=made_by("clean", problem.clean),
        prediction=made_by("prediction", logits.detach()),
        mean=made_by("mean", logits.detach() + 1.0),
        trained=lambda graph: trained,
        nodes=None,
    )
    found = rate_step(state, problem.readout, labelled, problem.distribution, problem.parameters, passes)
    assert torch.equal(found, logits)
    assert not found.requires_grad
    return state, made


@pytest.mark.parametrize(
    ("rule", "variant", "passes"),
    [
        (Constant(), "of", ["prediction"]),
        (GradNorm(), "of", ["clean"]),
        (GradNorm(data_gradient="clean"), "ofs", ["clean"]),
        (NoiseRatio(), "of", ["prediction"]),
        (NoiseRatio(), "ofs", ["prediction", "mean"]),
    ],
)
def test_only_what_the_rule_reads_is_computed(rule, variant, passes):
    problem = Problem("symmetric", "path", Variant(variant))
    cross_entropy(problem.clean.logits, LABELS).backward(retain_graph=True)
    labelled = Labelled(loss=lambda logits: cross_entropy(logits, LABELS))
    state, made = run(problem, rule, labelled, problem.clean.logits.detach() + 0.1 * normal(5, C))
    assert made == passes
    assert (state.rates.p != rule.p) == rule.adapts


@pytest.mark.parametrize("data_gradient", ["training", "clean"])
def test_the_step_is_that_of_the_regulariser_and_the_gradient(data_gradient):
    """The same loss on the clean graph and in training: the same step either way."""
    problem, rule = Problem("mean", "path"), GradNorm(data_gradient=data_gradient)
    rows = torch.tensor([0, 2])
    cross_entropy(problem.clean.logits[rows], LABELS[rows]).backward(retain_graph=True)
    labelled = Labelled(rows, loss=lambda logits: cross_entropy(logits[rows], LABELS[rows]))
    state, _ = run(problem, rule, labelled, None)
    norm = torch.cat([parameter.grad.flatten() for parameter in problem.parameters]).norm()
    other = RateState(rule, DENSITY)
    other.step(Seen(problem.regulariser(Labelled(rows)), norm))
    torch.testing.assert_close(state.first, other.first)
    assert state.rates == other.rates


def test_noise_is_that_of_the_labelled_rows():
    """A common shift of all classes is none."""
    problem, mask = Problem("symmetric", "path"), torch.arange(5) < 2
    trained = problem.clean.logits.detach() + 5.0
    trained[2:] += normal(3, C)
    state, _ = run(problem, NoiseRatio(), Labelled(mask), trained)
    assert float(state.noise) == pytest.approx(0.0, abs=1e-20)
    with pytest.raises(RuntimeError, match=r"with the arguments of that call; expected logits \[5, 3\], got none"):
        run(problem, NoiseRatio(), Labelled(), None)
    with pytest.raises(RuntimeError, match=r"arguments of that call; expected logits \[5, 3\], got \[2, 3\]"):
        run(problem, NoiseRatio(), Labelled(), trained[:2])


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
    state, small, large = RateState(Constant(0.2, 0.5), 0.4), GRAPHS["path"], undirected([(0, 1)], 8)
    assert state.rates_for(large).q == 0.2  # nothing was counted
    state.count(small)
    assert state.rates_for(small).q == 0.2
    assert state.rates_for(large).q == pytest.approx(0.2 * 5 / 8)
    state.count(large)
    assert float(state.nodes) == 6.5
    assert state.rates_for(GRAPHS["batch"]).q == 0.2  # graphs of a batch keep q
    state.count(GRAPHS["batch"])
    state.count(small)
    assert math.isnan(float(state.nodes))
    assert state.rates_for(large).q == 0.2


def test_rates_keep_their_precision_when_the_model_is_cast():
    state = RateState(Constant(0.123456789, 0.3), 0.1)
    assert state.to(torch.bfloat16).rates.p == 0.123456789
    assert {buffer.dtype for buffer in state.buffers()} == {torch.float64}
    assert state.to("meta").p.device.type == "meta"
