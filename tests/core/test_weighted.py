"""Weighted degrees: the unweighted ones as a special case, weights far apart, groups of quadrature nodes."""

from __future__ import annotations

import pytest
import torch

from rade.distribution import Distribution, Rates
from rade.moments import Normalised, Slopes, WeightedSymmetric
from rade.moments import weighted_degrees as module
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import error, on_pairs
from rade.views import draw


@pytest.mark.parametrize("loop", [0.0, 1.0, 2.0])
def test_unit_weights_are_no_weights(loop):
    """Coefficients, moments and the answer to one pair."""
    for name in ("star", "isolated", "batch", "cycle-chord", "directed", "directed-batch"):
        graph = GRAPHS[name]
        distribution = Distribution(graph, Rates(0.3, 0.2))
        view, size = draw(distribution, torch.Generator().manual_seed(0)), graph.pattern.size
        ours = WeightedSymmetric(graph, torch.double, torch.ones(size), 1.0, loop)
        plain = Normalised.symmetric(graph, torch.double, loop)
        for found, right in ((ours.clean(), plain.clean()), (ours.on(view), plain.on(view))):
            weights = ((w.edges, w.loop, w.added) for w in (found, right))
            assert error(*(torch.cat(parts) for parts in weights)) <= 1e-12
        for found, right in ((getattr(a, what)(distribution) for a in (ours, plain)) for what in ("mean", "variance")):
            assert error(on_pairs(graph, found, None), on_pairs(graph, right, None)) <= 1e-11
            assert error(found.loop, right.loop) <= 1e-11
        loops, received, sent = (normal(graph.num_nodes, seed=k) for k in range(3))
        slopes = Slopes(normal(size, seed=5), loops, normal(view.added.size, seed=6), received, sent.clone)
        answers = (torch.cat(a.response(view, slopes)) for a in (ours, plain))
        if loop > 0.0 or not graph.directed:  # where a degree may vanish, the answer with weights is a rough one
            assert error(*answers) <= 1e-10


def test_groups_of_nodes_change_nothing(monkeypatch):
    """Large graphs are integrated in groups of nodes: same values and slopes, with learned and constant weights."""
    graph = GRAPHS["cycle-chord"]
    weight = normal(graph.pattern.size, seed=1).exp().requires_grad_()
    p, q = (torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (0.3, 0.2))

    def found(weight: torch.Tensor) -> list[torch.Tensor]:
        coefficients = WeightedSymmetric(graph, torch.double, weight, 1.0)
        moments = coefficients.variance(Distribution(graph, Rates(p, q)))
        value = moments.edges.sum() + moments.nonedges.apply(normal(6, 2)).square().sum()
        slopes = torch.autograd.grad(value, (p, q), create_graph=True)
        return [value, *slopes, *torch.autograd.grad(slopes[0] * slopes[1], (p, q))]

    whole = found(weight)
    for name, size in (("BUDGET", 2**22), ("BUDGET", 300), ("CACHED", 300), ("CACHED", 1)):
        monkeypatch.setattr(module, name, size)
        for given in (weight, weight.detach()):
            assert all(error(*pair) <= 1e-11 for pair in zip(found(given), whole))
