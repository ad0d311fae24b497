"""The algebra of operators: what a sum of parts applies is the sum of its matrices."""

from __future__ import annotations

import pytest
import torch
from rade.graph.operator import AllPairs, Diagonal, LowRank, Operator, Sparse, over_nonedges
from torch import Tensor

from rade.graph.graph import Graph
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import error, nonedges, one_hot

every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def low_rank(graph: Graph, rank: int = 2) -> LowRank:
    return LowRank(graph, normal(graph.num_nodes, rank, seed=1), normal(graph.num_nodes, rank, seed=2))


def matrix(operator: Operator, graph: Graph) -> Tensor:
    return operator.apply(one_hot(graph))


def several(graph: Graph) -> list[Operator]:
    """One operator of each kind of part, and one of all."""
    kernel, n = low_rank(graph), graph.num_nodes
    parts = (
        Sparse(graph.pattern, normal(graph.pattern.size)),
        Diagonal(normal(n, seed=3)),
        AllPairs(kernel, normal(n, seed=4)),
    )
    alone = [Operator((part,)) for part in parts]
    return [*alone, Operator(parts), over_nonedges(graph, kernel).scaled(normal(n, seed=5))]


@every_graph
def test_parts_are_their_matrices(graph):
    kernel, same = low_rank(graph), graph.batch[:, None] == graph.batch
    sparse, diagonal, pairs, *_ = several(graph)
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.double)
    dense[graph.pattern.target, graph.pattern.source] = normal(graph.pattern.size)
    assert error(matrix(sparse, graph), dense) <= 1e-14
    assert error(matrix(diagonal, graph), normal(graph.num_nodes, seed=3).diag()) <= 1e-14
    full = (kernel.left @ kernel.right.t()) * same
    assert error(matrix(pairs, graph), normal(graph.num_nodes, seed=4)[:, None] * full) <= 1e-14


@every_graph
def test_over_nonedges_is_all_nonedges(graph):
    """All pairs − loops − edges, each graph of a batch by itself."""
    kernel, rows = low_rank(graph), normal(graph.num_nodes, seed=5)
    expected = rows[:, None] * (kernel.left @ kernel.right.t()) * nonedges(graph)
    assert error(matrix(over_nonedges(graph, kernel).scaled(rows), graph), expected) <= 1e-13


@every_graph
def test_operators_add_and_scale(graph):
    rows, x = normal(graph.num_nodes, seed=6), normal(graph.num_nodes, 3, seed=7)
    for one in several(graph):
        assert error(one.scaled(rows).apply(x), rows[:, None] * one.apply(x)) <= 1e-13
        for other in several(graph):
            assert error((one + other).apply(x), one.apply(x) + other.apply(x)) <= 1e-13
            twice = (one + other).scaled(rows)
            assert error(twice.apply(x), (one.scaled(rows) + other.scaled(rows)).apply(x)) <= 1e-13


@every_graph
def test_parts_of_one_structure_merge(graph):
    """A step is one product over the clean edges, however many summands it has."""
    kernel, edges = low_rank(graph), Operator((Sparse(graph.pattern, normal(graph.pattern.size)),))
    step = over_nonedges(graph, kernel).scaled(normal(graph.num_nodes)) + edges
    assert len(step.parts) == 3
    assert len((step + over_nonedges(graph, kernel).scaled(normal(graph.num_nodes))).parts) == 3
    assert len((step + over_nonedges(graph, low_rank(graph))).parts) == 4
    assert len((step + step).parts) == 3


def test_the_empty_sum_is_zero():
    x = normal(7, 3)
    assert torch.equal(Operator().apply(x), torch.zeros_like(x))
    assert Operator().scaled(normal(7)).parts == ()


@every_graph
def test_heads_are_applied_side_by_side(graph):
    """Values [E, H] and rows [n, H] act on x [n, H, F] head by head."""
    n, heads = graph.num_nodes, 3
    values, diagonal, x = normal(graph.pattern.size, heads), normal(n, heads, seed=1), normal(n, heads, 2, seed=2)
    operator = Operator((Sparse(graph.pattern, values), Diagonal(diagonal)))
    rows = normal(n, heads, seed=3)
    for h in range(heads):
        alone = Operator((Sparse(graph.pattern, values[:, h]), Diagonal(diagonal[:, h])))
        assert error(operator.apply(x)[:, h], alone.apply(x[:, h])) <= 1e-14
        assert error(operator.scaled(rows).apply(x)[:, h], alone.scaled(rows[:, h]).apply(x[:, h])) <= 1e-14


@pytest.mark.parametrize("graph", [GRAPHS["path"], GRAPHS["batch"]], ids=["one graph", "batch"])
def test_derivatives_in_features_and_weights(graph):
    """Both orders of reverse mode, and forward mode, through every kind of part."""
    n = graph.num_nodes
    inputs = [normal(graph.pattern.size), normal(n, seed=1), *(normal(n, 2, seed=seed) for seed in (2, 3, 4))]

    def apply(values: Tensor, rows: Tensor, left: Tensor, right: Tensor, x: Tensor) -> Tensor:
        step = over_nonedges(graph, LowRank(graph, left, right)).scaled(rows) + Operator(
            (Sparse(graph.pattern, values),)
        )
        return (step + Operator((Diagonal(rows),))).apply(x)

    inputs = [v.requires_grad_() for v in inputs]
    assert torch.autograd.gradcheck(apply, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(apply, inputs, fast_mode=True)
