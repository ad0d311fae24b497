"""Operators with constant weights, applied as one step: the same sums, and the transpose on the way back."""

from __future__ import annotations

import pytest
import torch
from rade.graph.constant import Constants
from rade.graph.nodes import Nodes
from rade.graph.operator import Diagonal, Operator, Sparse
from rade.view import Law, MeanView, Rates
from rade.view.rows import Restricted
from rade.view.sampling import sample
from torch import Tensor

from rade.correction import shared_aggregation
from rade.moments import Mean, Symmetric
from rade.testing import GRAPHS

ADJACENCIES = ("clean", "view", "mean", "some rows")


def operator(kind: str, graph: str = "batch", variant: str = "of") -> Operator:
    law = Law(GRAPHS[graph], Rates(0.4, 0.3), variant, generator=torch.Generator().manual_seed(0))
    whole = {"clean": law.graph, "mean": MeanView(law)}.get(kind) or sample(law)
    rows = Nodes(torch.tensor([law.graph.num_nodes - 1, 1, 2]), law.graph.num_nodes)
    adjacency = Restricted(whole, rows) if kind == "some rows" else whole
    found = shared_aggregation(adjacency, Symmetric(law.graph, torch.double))
    assert isinstance(found, Operator)
    return found


def matrix(apply, columns: int) -> Tensor:
    return apply(torch.eye(columns, dtype=torch.double))


def part_by_part(of: Operator, x: Tensor) -> Tensor:
    return sum((part.apply(x) for part in of.parts), torch.zeros((), dtype=x.dtype))


@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("graph", sorted(GRAPHS))
@pytest.mark.parametrize("kind", ADJACENCIES)
def test_as_one_is_as_part_by_part_and_its_adjoint_is_the_transpose(kind, graph, variant):
    of, n = operator(kind, graph, variant), GRAPHS[graph].num_nodes
    constants = of.constants
    assert isinstance(constants, Constants)
    whole = matrix(constants.apply, n)
    torch.testing.assert_close(whole, matrix(lambda x: part_by_part(of, x), n))
    torch.testing.assert_close(matrix(constants.adjoint.apply, len(whole)), whole.t())


@pytest.mark.parametrize("kind", ADJACENCIES)
def test_derivatives_of_any_order_in_both_modes(kind):
    constants = operator(kind).constants
    assert constants is not None
    x = torch.randn(GRAPHS["batch"].num_nodes, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(constants.apply, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: constants.apply(x).square(), x)


def test_features_are_not_written_to():
    """Parts add to the memory of the sum, never to that of the features."""
    of = operator("view")
    x = torch.randn(GRAPHS["batch"].num_nodes, 2, dtype=torch.double)
    before = x.clone()
    of.apply(x)
    torch.testing.assert_close(x, before, rtol=0, atol=0)


def test_weights_with_derivatives_and_heads_are_not_constant():
    graph = GRAPHS["batch"]
    rates = Rates(torch.tensor(0.4, dtype=torch.double, requires_grad=True), 0.3)
    learned = Mean(graph, torch.double).mean(Law(graph, rates)).nonedges
    heads = Operator((Diagonal(torch.ones(graph.num_nodes, 2, dtype=torch.double)),))
    one = torch.ones(graph.pattern.size, dtype=torch.double, requires_grad=True)
    for of in (learned, heads, Operator((Sparse(graph.pattern, one),)), Operator()):
        assert of.constants is None
