"""Weights and attributes of edges where the laws do not look: far apart, one pair, groups, learned, imputed."""

import pytest
import torch

import rade.nn
from core.test_layers import IN, Case, drawn, features, over
from rade import Graph
from rade.distribution import Distribution, Rates
from rade.moments import Normalised, Slopes, WeightedSymmetric
from rade.moments import weighted_degrees as module
from rade.moments.attention import attention
from rade.nn.edge_values import imputed
from rade.testing import CHECKS, GRAPHS, Aggregator
from rade.testing.aggregators import normal, weighted_symmetric
from rade.testing.oracle import error
from rade.views import draw
from zoo import random_edges, seeded

ISOLATED = GRAPHS["isolated"]


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


def test_weights_may_be_learned_and_layers_share_constant_ones():
    """Gradients reach the weights through the moments; layers on the same constant weights share their coefficients."""
    ours, _ = Case("GCNConv").pair()
    weight, view, x = normal(8).exp().requires_grad_(), drawn(ISOLATED, "of"), features(ISOLATED)
    assert torch.autograd.gradcheck(lambda weight: ours(x, over(view), weight).square().sum(), (weight,))
    fixed = weight.detach()
    assert ours.coefficients(ISOLATED, x, fixed) is ours.coefficients(ISOLATED, x, fixed)
    assert ours.coefficients(ISOLATED, x, fixed) is not ours.coefficients(ISOLATED, x, fixed.clone())
    ours.added_weight = 0.5
    assert torch.as_tensor(ours.coefficients(ISOLATED, x, fixed).added).unique().tolist() == [0.5]


def test_attributes_have_the_same_moments_where_pairs_are_too_many_to_list(monkeypatch):
    edges = random_edges(60, 140)
    graph, attr = Graph.from_edge_index(edges, 60), normal(edges.shape[1], 3, seed=3)
    conv, (s, t) = seeded(lambda: rade.nn.GATConv(IN, 4, heads=2, edge_dim=3)).double(), normal(2, 60, 2)
    found = []
    for costs in ((0, 1, 1), (1, 1, 0)):
        monkeypatch.setattr(attention, "costs", lambda *_, costs=costs: costs)
        mean = conv._attention(graph, s, t, attr).mean(Distribution(graph, Rates(0.3, 0.02)))
        found.append((mean.edges, mean.loop, mean.nonedges.apply(torch.ones(60, 2, 1).double())))
    for exact, near in zip(*found):
        assert error(near, exact) <= 2e-3


def test_what_added_edges_have_is_that_of_their_graph():
    graph = GRAPHS["batch"]  # 4 entries and 6
    kinds = torch.tensor([[2, 0], [1, 1], [2, 0], [3, 0], [5, 5], [4, 4], [4, 4], [5, 5], [4, 4], [0, 0]])
    assert imputed(graph, kinds, "frequent").tolist() == [[2, 0]] * 3 + [[4, 4]] * 4
    means = imputed(graph, kinds.double(), "mean")
    assert torch.equal(means[0], kinds[:4].double().mean(0))
    assert torch.equal(means[-1], kinds[4:].double().mean(0))
    assert imputed(graph, kinds, "zero").sum() == 0
    empty = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3, torch.tensor([0, 0, 1]))
    for how in ("mean", "frequent"):
        assert imputed(empty, torch.ones(2, 1), how).flatten().tolist() == [1.0, 1.0, 0.0]
    for how, words in (("mean", "categories in edge_attr have no mean; added_attr='frequent'"), ("odd", "added_attr")):
        with pytest.raises(ValueError, match=words):
            imputed(graph, kinds, how)
