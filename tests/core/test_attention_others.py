"""Sums of attention weights over all other nodes, against a dense matrix: batches, heads, any scale, derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from core.dense_attention import SLOPE, batched, normal, random_graph
from rade.graph.graph import Graph
from rade.moments.attention.denoised import OtherWeights
from rade.moments.attention.scores import Scores

BATCH = batched([random_graph(n, m, seed=n) for n, m in ((60, 150), (1, 0), (2, 1), (90, 100))])
SINGLE = random_graph(70, 120, seed=1)
GRAPHS = {"batch": BATCH, "single": SINGLE, "one node": random_graph(1, 0, seed=0)}


def dense(graph: Graph, scores: Scores) -> Tensor:
    """K [n, n, H] with a zero diagonal, relative to the largest weight that each target could hear."""
    beta = leaky_relu(scores.s[None] + scores.t[:, None], scores.slope)
    same = (graph.batch[:, None] == graph.batch)[..., None]
    largest = beta.detach().masked_fill(~same, -torch.inf).amax(1, keepdim=True)
    others = same & ~torch.eye(graph.num_nodes, dtype=torch.bool)[..., None]
    return torch.where(others, torch.exp((beta - largest).clamp(max=0.0)), 0.0)


@pytest.mark.parametrize("deviation", [0.0, 1.0, 30.0, 800.0])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_sums_over_all_others_are_dense_sums(name, heads, deviation):
    """Relative to the sum of absolute terms, so that a node whose own weight dwarfs all others counts as well."""
    graph = GRAPHS[name]
    scores = Scores(graph, *(deviation * normal(2, graph.num_nodes, heads)), SLOPE, self_loops=False)
    weights, x = OtherWeights(scores, torch.double), normal(graph.num_nodes, heads, 5, seed=2)
    matrix = dense(graph, scores)
    torch.testing.assert_close(weights.total(), matrix.sum(1), rtol=1e-10, atol=0)
    terms = torch.einsum("ijh,jhf->ihf", matrix, x.abs())
    found, expected = weights.apply(x), torch.einsum("ijh,jhf->ihf", matrix, x)
    assert ((found - expected).abs() <= 1e-10 * terms).all()


def test_a_source_that_dwarfs_all_others_leaves_its_own_sum_exact():
    """s of one node is 60 above the rest: everybody minus itself would be rounding."""
    s = normal(70, 1)
    s[7] += 60.0
    scores = Scores(SINGLE, s, normal(70, 1, seed=1), SLOPE, self_loops=False)
    weights, x = OtherWeights(scores, torch.double), normal(70, 1, 3, seed=2)
    expected = torch.einsum("ijh,jhf->ihf", dense(SINGLE, scores), x)
    torch.testing.assert_close(weights.apply(x)[7], expected[7], rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["batch", "single"])
def test_derivatives_are_those_of_dense_sums(name):
    graph = GRAPHS[name]
    s, t = (normal(graph.num_nodes, 2, seed=seed).requires_grad_() for seed in (4, 5))
    x = normal(graph.num_nodes, 2, 3, seed=6).requires_grad_()
    weights = OtherWeights(scores := Scores(graph, s, t, SLOPE, self_loops=False), torch.double)
    found = weights.apply(x).sin().sum() + weights.total().sin().sum()
    matrix = dense(graph, scores)
    # The kernel is relative to a constant; so is the matrix.
    expected = torch.einsum("ijh,jhf->ihf", matrix, x).sin().sum() + matrix.sum(1).sin().sum()
    for one, other in zip(torch.autograd.grad(found, (s, t, x)), torch.autograd.grad(expected, (s, t, x))):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
