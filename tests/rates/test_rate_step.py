"""Rates as buffers, read once for each change; and a rate step of a whole model."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from rade.distribution import Rates
from rade.rates.readout import Labelled
from rade.rates.rules import Constant, GradNorm, NoiseRatio
from rade.rates.state import RateState
from rade.testing import GRAPHS
from zoo import EDGES, LABELS, X, training_step, wrapped

ROWS = torch.arange(20)


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


def test_rates_keep_their_precision_when_the_model_is_cast():
    state = RateState(Constant(0.123456789, 0.3), 0.1)
    assert state.to(torch.bfloat16).rates.p == 0.123456789
    assert {buffer.dtype for buffer in state.buffers()} == {torch.float64}
    assert state.to("meta").p.device.type == "meta"
