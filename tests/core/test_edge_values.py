"""Weights and attributes of edges: they follow the caller's order, and added edges have what is imputed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Linear

import rade.nn
from core.test_layers import IN, Case, drawn, features, over
from rade import Graph, Rates
from rade.correction import Adjacency
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
EDGE_INDEX = ISOLATED.edge_index[:, torch.randperm(8, generator=torch.Generator().manual_seed(0))]
X, ATTR, MINE = normal(5, IN), normal(8, DIM, seed=1), Graph.from_edge_index(EDGE_INDEX, 5)


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


def gine(**options: Any) -> Any:
    return seeded(lambda: rade.nn.GINEConv(Linear(IN, 4), **options)).double()


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
    for how, words in (
        ("mean", "categories in edge_attr have no mean; added_attr='frequent'"),
        ("median", "added_attr"),
    ):
        with pytest.raises(ValueError, match=words):
            imputed(graph, kinds, how)


def weightless() -> Tensor:
    conv = rade.nn.GCNConv(IN, 2, add_self_loops=False).double()
    conv.added_weight = 0.0
    return conv(X, over(drawn(MINE)), torch.ones(8).double())


def denoised() -> Adjacency:
    return Adjacency(MINE, Distribution(MINE, Rates(0.1, 0.1), noise=Rates(0.1, 0.05)))


REFUSED = {
    "narrow": (lambda: gine()(X, MINE, ATTR), "GINEConv adds edge_attr to features: expected 6 columns, got 3; set"),
    "too few": (lambda: gine()(X, MINE, ATTR[1:]), r"GINEConv needs edge_attr with one row for.*\[7, 3\]"),
    "missing": (lambda: gine()(X, MINE), r"needs edge_attr .* got None"),
    "weights": (
        lambda: Case("GCNConv").pair()[0](X, MINE, ATTR.exp()),
        r"one number for each of the 8.*\[8, 3\]",
    ),
    "weightless": (weightless, "added edges must weigh something without self-loops, got added_weight = 0.0"),
    "no edge_dim": (lambda: Case("TransformerConv").pair()[0](X, MINE, ATTR), "only if it was built with edge_dim"),
    "noise": (lambda: gine(edge_dim=DIM)(X, denoised(), ATTR), r"cannot be undone for messages of single edges"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused_in_a_sentence(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()
