"""Weighted degrees where the laws do not look: weights far apart, the answer to one pair, groups of nodes."""

import pytest
import torch

from rade.distribution import Distribution, Rates
from rade.moments import Normalised, Slopes, WeightedSymmetric
from rade.moments import weighted_degrees as module
from rade.testing import CHECKS, GRAPHS, Aggregator
from rade.testing.aggregators import normal, weighted_symmetric
from rade.testing.oracle import error
from rade.views import draw


def test_weights_may_be_far_apart():
    """Between 1e-6 and 1e6."""
    far = Aggregator("far apart", weighted_symmetric(1.0, 6.0), 1e-8, costly=True, shares=True)
    CHECKS["moments_are_those_of_all_views"](far)


@pytest.mark.parametrize("name", ["star", "isolated", "batch", "cycle-chord", "directed", "directed-batch"])
def test_the_answer_to_one_pair_is_that_without_weights_where_these_are_1(name):
    graph = GRAPHS[name]
    view, size = draw(Distribution(graph, Rates(0.3, 0.2)), torch.Generator().manual_seed(0)), graph.pattern.size
    loops, received, sent = (normal(graph.num_nodes, seed=k) for k in range(3))
    slopes = Slopes(normal(size, seed=5), loops, normal(view.added.size, seed=6), received, sent.clone)
    for loop in (0.0, 1.0, 2.0)[graph.directed :]:  # where a degree may vanish, the answer with weights is a rough one
        ours = WeightedSymmetric(graph, torch.double, torch.ones(size), 1.0, loop)
        plain = Normalised.symmetric(graph, torch.double, loop)
        assert error(*(torch.cat(one.response(view, slopes)) for one in (ours, plain))) <= 1e-10


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
    for size in (2**20, 300, 1):
        monkeypatch.setattr(module, "BUDGET", size)
        for given in (weight, weight.detach()):
            assert all(error(*pair) <= 1e-11 for pair in zip(found(given), whole))
