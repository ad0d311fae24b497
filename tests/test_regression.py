"""Squared errors: their curvature is constant, so the regulariser's gradient flows through Var(δ)."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import mse_loss

import rade
from adapting import adapting
from rade import Graph, Law, Rates
from rade.control.labelled import Labelled
from rade.control.regulariser import Regulariser, regulariser
from rade.control.variance import variance
from rade.wrapper.clean import clean_pass
from rade.wrapper.running import Running
from zoo import ATTENTION, LAYERS, Net, normal, random_edges, seeded

NODES = 20
X, EDGES = normal(NODES, 8).double(), random_edges(NODES, 40)
GRAPH = Graph.from_edge_index(EDGES, NODES)
ROWS = torch.arange(0, NODES, 2)
READOUT = rade.Readout(task="regression")
NAMES = ("GCNConv", "SAGEConv", "GINConv", "GATConv-heads")


def wrapped(name: str, rule: rade.GradNorm | None = None) -> rade.RADE:
    model = rade.RADE(
        seeded(lambda: Net((LAYERS | ATTENTION)[name])).double(), readout=READOUT, rule=rule or rade.GradNorm()
    )
    return model.train()


def regulariser_of(model: rade.RADE) -> Regulariser:
    """As a rate step builds it."""
    running, law = Running(model.wrapped, model._call((X, EDGES), {})), Law(GRAPH, Rates(0.3, 0.1))
    parameters = list(model.wrapped.parameters())
    return regulariser(clean_pass(running, GRAPH, READOUT), READOUT, Labelled.of(ROWS), law, parameters)


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_the_variance(name):
    """½ mean Σ_c Var(δ_ic), written down for two layers and a head, with derivatives in all parameters."""
    model, rates = wrapped(name), Rates(0.3, 0.1)
    net = model.wrapped.eval()
    hidden = net.convs[0](X, GRAPH).relu()
    spread = variance(net.convs[1].sent(net.head.weight, GRAPH, hidden), Law(GRAPH, rates)).total
    value = 0.5 * spread[ROWS].sum() / len(ROWS)
    parts = torch.autograd.grad(value, list(net.parameters()), allow_unused=True, materialize_grads=True)
    norm, _ = regulariser_of(model).norm(Rates(*(torch.tensor(r, dtype=torch.double) for r in (0.3, 0.1))))
    assert float(norm) == pytest.approx(float(torch.cat([part.flatten() for part in parts]).norm()), rel=1e-6)
    assert float(norm) > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_those_of_finite_differences(name):
    found, step = regulariser_of(wrapped(name)), 1e-5

    def at(p: float, q: float) -> tuple[torch.Tensor, torch.Tensor]:
        return found.norm(Rates(*(torch.tensor(r, dtype=torch.double, requires_grad=True) for r in (p, q))))

    _, slopes = at(0.3, 0.1)
    by_p = (at(0.3 + step, 0.1)[0] - at(0.3 - step, 0.1)[0]) / (2 * step)
    by_q = (at(0.3, 0.1 + step)[0] - at(0.3, 0.1 - step)[0]) / (2 * step)
    torch.testing.assert_close(slopes, torch.stack([by_p, by_q]), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize(("scale", "rises"), [(1e3, True), (1e-9, False)])
def test_rates_follow_the_size_of_the_data_gradient(scale, rises):
    """A steep loss affords more noise, a flat one less: G_reg is balanced with G_data, and p does not run away."""
    model = wrapped("GCNConv", rade.GradNorm(p=0.4, lr=0.05))
    for _ in range(3):
        model.zero_grad()
        (scale * mse_loss(model(X, EDGES), normal(NODES, 3, seed=5).double())).backward()
        model.adapt()
    assert (model.rates.p > 0.4) is rises


def test_a_squared_loss_of_ones_own_is_sent_to_the_task():
    """Its curvature is found to be constant; the task says what to do then."""
    labels = normal(NODES, 3, seed=5).double()
    readout = rade.Readout(loss=lambda out, rows: (out - labels[rows]).square().sum())
    model = adapting(seeded(lambda: Net(LAYERS["GCNConv"])).double(), readout=readout).train()
    mse_loss(model(X, EDGES), labels).backward()
    with pytest.raises(ValueError, match=r"curvature of this loss does not depend.*Readout\(task='regression'\)"):
        model.adapt()
