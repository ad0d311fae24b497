"""Rates as buffers: read once for each change, saved, moved and copied with the model."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from rates_problem import GRAPHS, undirected

from rade.distribution import Rates
from rade.rates.rules import Constant, GradNorm, Seen
from rade.rates.state import RateState


def test_rates_are_converted_once_for_each_change(monkeypatch):
    """By whatever way a buffer changes; evaluation always looks, since ``.data`` counts no change."""
    found, tolist = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: (found.append(tensor), tolist(tensor))[1])
    state, graph = RateState(Constant(0.2, 0.5), None), GRAPHS["path"]
    for _ in range(3):
        state.see(graph)
        assert state.rates_at(graph.density) == Rates(0.2, 0.5 * graph.density)
    assert len(found) == 2  # before the density was known, and after
    with torch.no_grad():
        state.p.fill_(0.3)
    assert [state.rates.p, state.rates.p] == [0.3, 0.3]
    assert len(found) == 3
    state.load_state_dict(RateState(Constant(0.4, 0.5), 0.5).state_dict())
    assert [state.rates, state.rates] == [Rates(0.4, 0.25)] * 2
    assert len(found) == 4
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
    with pytest.raises(ValueError, match=r"density must lie in \[0, 1\], got 1.5"):
        RateState(Constant(), 1.5)


def test_larger_graphs_than_in_training_get_as_many_additions_per_node():
    state, small, large = RateState(Constant(0.2, 0.5), 0.4), GRAPHS["path"], undirected([(0, 1)], 8)
    assert state.rates_for(large).q == 0.2  # nothing was counted
    state.count(small)
    assert state.rates_for(small).q == 0.2
    assert state.rates_for(large).q == pytest.approx(0.2 * 4 / 8)
    state.count(large)
    assert float(state.nodes) == 6.0
    assert state.rates_for(GRAPHS["batch"]).q == 0.2  # graphs of a batch keep q
    state.count(GRAPHS["batch"])
    state.count(small)
    assert math.isnan(float(state.nodes))
    assert state.rates_for(large).q == 0.2


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
def test_the_state_survives_and_is_not_shared(way):
    state = RateState(GradNorm(0.3, 0.4), 0.1)
    state.steps.add_(3)
    state.p.fill_(0.123)
    if way == "state_dict":
        other = RateState(GradNorm(), None)
        other.load_state_dict(state.state_dict())
    else:
        other = copy.deepcopy(state) if way == "deepcopy" else pickle.loads(pickle.dumps(state))
    assert other.rates == state.rates
    assert all(torch.equal(one, two) or bool(one.isnan()) for one, two in zip(state.buffers(), other.buffers()))
    other.p.fill_(0.5)
    assert (state.rates.p, other.rates.p) == (0.123, 0.5)
    names = ["calls", "density", "first", "nodes", "p", "rho", "second", "skipped", "steps"]
    assert sorted(state.state_dict()) == names


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_rates_keep_their_precision_when_the_model_is_cast(dtype):
    state = RateState(Constant(0.123456789, 0.3), 0.1)
    assert state.to(dtype).rates.p == 0.123456789
    assert {buffer.dtype for buffer in state.buffers()} == {torch.float64}
    assert state.to("meta").p.device.type == "meta"


def test_constant_rates_ask_for_nothing():
    state = RateState(Constant(), 0.1)
    state.step(Seen())
    assert state.rates == Rates(0.2, 0.2 * 0.1)
