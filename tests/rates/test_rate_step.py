"""A rate step asks for the passes that its rule needs, and what the readout doubts of them."""

from __future__ import annotations

import pytest
import torch
from rates_problem import DENSITY, C, Problem, normal
from torch.nn.functional import cross_entropy, mse_loss, nll_loss

from rade.distribution import Variant
from rade.rates.rate_step import Passes, rate_step
from rade.rates.readout import FIRST_STEPS, Labelled, Readout
from rade.rates.rules import Constant, GradNorm, NoiseRatio, Rule, Seen
from rade.rates.state import RateState

LABELS = torch.arange(4) % C


def run(problem: Problem, rule: Rule, labelled: Labelled, trained: torch.Tensor | None) -> tuple[RateState, list[str]]:
    """One step, and the passes that it made."""
    state, made, logits = RateState(rule, DENSITY), [], problem.clean.logits

    def made_by(name, value):
        return lambda: (made.append(name), value)[1]

    passes = Passes(
        made_by("clean", problem.clean),
        made_by("prediction", logits.detach()),
        made_by("mean", logits.detach() + 1.0),
        lambda: trained,
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
    state, made = run(problem, rule, labelled, problem.clean.logits.detach() + 0.1 * normal(4, C))
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
    problem, mask = Problem("symmetric", "path"), torch.tensor([True, True, False, False])
    trained = problem.clean.logits.detach() + 5.0
    trained[2:] += normal(2, C)
    state, _ = run(problem, NoiseRatio(), Labelled(mask), trained)
    assert float(state.noise) == pytest.approx(0.0, abs=1e-20)
    with pytest.raises(RuntimeError, match=r"with the arguments of that call; expected logits \[4, 3\], got none"):
        run(problem, NoiseRatio(), Labelled(), None)
    with pytest.raises(RuntimeError, match=r"arguments of that call; expected logits \[4, 3\], got \[2, 3\]"):
        run(problem, NoiseRatio(), Labelled(), trained[:2])


LOSSES = {
    "cross-entropy": (lambda z: cross_entropy(z, LABELS, label_smoothing=0.1), False),
    "weighted": (lambda z: cross_entropy(z, LABELS, torch.tensor([1.0, 2.0, 5.0]).to(z)), False),
    "squares": (lambda z: mse_loss(z, torch.ones_like(z)), True),
    "links": (lambda z: (z[0] * z[1]).sum(), True),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_loss_that_is_none_of_classes_is_doubted_in_the_first_steps(name, dtype):
    loss, doubted = LOSSES[name]
    logits = normal(4, C).to(dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    sentence = Readout().doubt(logits, gradient, step=0)
    assert (sentence is not None) == doubted
    assert not doubted or "does not treat the model's outputs as class logits" in sentence
    others = (Readout(task="multiclass"), Readout(task="regression"), Readout(loss=lambda z, rows: z.sum()))
    assert not any(readout.doubt(logits, gradient, step=0) for readout in others)
    assert Readout().doubt(logits, gradient, step=FIRST_STEPS) is None
    assert Readout().doubt(None, None, step=0) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loss_that_has_vanished_is_not_doubted(dtype):
    """Nothing but rounding is left of its gradients; log-probabilities are told by their values."""
    logits = (18.0 * torch.eye(C)[LABELS] + 0.1 * normal(4, C)).to(dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(logits, LABELS), logits)
    assert Readout().doubt(logits, gradient + torch.finfo(dtype).eps / 4, step=0) is None
    log = normal(4, C).log_softmax(1).requires_grad_()
    (gradient,) = torch.autograd.grad(nll_loss(log, LABELS), log)
    assert Readout().doubt(log, gradient, step=0) is None


def test_what_logits_and_rows_cannot_be():
    graph, logits = Problem("sum", "batch").graph, normal(6, C)
    assert Readout(task="binary").scores(logits[:, 0], graph).shape == (6, 1)
    for readout, given, sentence in (
        (Readout(), logits[:2], r"expected logits for 6 nodes, got 2 rows; say how nodes are pooled"),
        (Readout(pool="sum"), logits, "expected logits for 2 graphs, got 6 rows"),
        (Readout(), logits[:, 0], "one logit per row has no classes"),
        (Readout(), logits.softmax(1), r"outputs are probabilities \(each row sums to 1\)"),
    ):
        with pytest.raises(ValueError, match=sentence):
            readout.scores(given, graph)
    for rows, sentence in (
        (torch.tensor([0, 6]), "must lie between 0 and 5, got 6"),
        (torch.tensor([], dtype=torch.long), "at least one row"),
        (torch.ones(5, dtype=torch.bool), r"an entry for each of the 6 rows, got \[5\]"),
        (torch.tensor([0.0]), "a vector of int64 ids or a bool mask"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Labelled(rows).chosen(6, logits.device)
    with pytest.raises(ValueError, match=r"known must be broadcastable to the logits' \[6, 3\], got \[6, 2\]"):
        Labelled(known=torch.ones(6, 2)).masked(logits)
    with pytest.raises(TypeError, match=r"must be rows .* or a rade.Labelled, got list"):
        Labelled.of([0, 1])
    with pytest.raises(ValueError, match="task must be one of"):
        Readout(task="classes")
