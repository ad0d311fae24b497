"""Weights and attributes of edges: they follow the caller's order, and added edges have what is imputed."""

from dataclasses import replace

import pytest
import torch

import rade.nn
from core.test_layers import IN, Case, drawn, features, over
from rade import Graph, Rates
from rade.distribution import Distribution
from rade.moments.attention import attention
from rade.moments.attention.exact import COARSE
from rade.nn.edge_values import imputed
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import error
from zoo import random_edges, seeded

DIM = 3
ISOLATED = GRAPHS["isolated"]


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
    graph, attr = Graph.from_edge_index(edges, 60), normal(edges.shape[1], DIM, seed=3)
    conv, (s, t) = seeded(lambda: rade.nn.GATConv(IN, 4, heads=2, edge_dim=DIM)).double(), normal(2, 60, 2)
    found = []
    for listed in (True, False):
        monkeypatch.setattr(attention, "listing_is_cheaper", lambda scores, listed=listed: listed)
        monkeypatch.setattr(attention, "lattice_for", lambda tolerance: replace(COARSE, listed=0))
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
