"""Sparse products and sums against dense matrices: the algebra of weights, the fast path of constant ones, slopes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.test_graph import MIXED
from rade import Graph, Rates, Variant
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.graph.sparse import Pattern, at_entries, product, row_pointer
from rade.moments import Normalised
from rade.nn.linear import as_sparse
from rade.sums import LowRank, Sums, over_nonedges, over_nonedges_by_degree
from rade.testing.aggregators import normal
from rade.testing.oracle import GRAPHS, error, nonedges, on_edges
from rade.views import draw

ALL = {**GRAPHS, "mixed": MIXED}
every_graph = pytest.mark.parametrize("graph", ALL.values(), ids=list(ALL))
MODES = ("clean", "view", "mean")


def parts(graph: Graph) -> dict[str, tuple[Sums, Tensor]]:
    """Sums of every kind, and their matrices."""
    n, pattern, same = graph.num_nodes, graph.pattern, graph.batch[:, None] == graph.batch
    left, right = normal(n, 2, seed=1), normal(n, 2, seed=2)
    outer, values, loop = (left @ right.t()) * same, normal(pattern.size), normal(n, seed=3)
    degrees, _, of_node = graph.degree_classes
    left_of, right_of = (normal(degrees.numel(), 2, seed=seed) for seed in (4, 5))
    by_degree = (left_of @ right_of.t())[of_node][:, of_node] * nonedges(graph)
    dense = on_edges(graph, values)
    return {
        "edges": (Sums(graph, values), dense),
        "loop": (Sums(graph, loop=loop), loop.diag()),
        "listed": (Sums(graph, listed=((pattern.transpose, values[pattern.transposition]),)), dense.t()),
        "everyone": (Sums(graph, everyone=(LowRank(graph, left, right),)), outer),
        "non-edges": (over_nonedges(graph, left, right), outer * nonedges(graph)),
        "by degree": (over_nonedges_by_degree(graph, left_of, right_of), by_degree),
        "nothing": (Sums(graph), torch.zeros(n, n).double()),
    }


@every_graph
def test_sums_are_their_matrices_and_add_and_scale_as_these(graph):
    """For all nodes and for some, forward and transposed; each graph of a batch by itself."""
    x, rows, some = normal(graph.num_nodes, 3, seed=6), normal(graph.num_nodes, seed=7), torch.tensor([2, 0])
    found = parts(graph)
    for one, matrix in found.values():
        assert error(one.apply(x), matrix @ x, scale=torch.ones(1)) <= 1e-12
        assert error(one.scaled(rows).apply(x), rows[:, None] * (matrix @ x), scale=torch.ones(1)) <= 1e-12
        assert error(one.at(some).apply(x), (matrix @ x)[some], scale=torch.ones(1)) <= 1e-12
        assert error(one.transposed(x), matrix.t() @ x, scale=torch.ones(1)) <= 1e-12
        for other, there in found.values():
            assert error((one + other).apply(x), (matrix + there) @ x, scale=torch.ones(1)) <= 1e-12


def over(mode: str, graph: Graph, variant: str = "of") -> Adjacency:
    distribution = Distribution(graph, Rates(0.4, 0.3), Variant(variant))
    view = draw(distribution, torch.Generator().manual_seed(0)) if mode == "view" else None
    return Adjacency(graph, None if mode == "clean" else distribution, view)


@pytest.mark.parametrize("variant", ["of", "ofs"])
@pytest.mark.parametrize("mode", MODES)
@every_graph
def test_constant_weights_are_applied_as_one_and_back_as_the_transpose(graph, mode, variant):
    """As with weights that want derivatives, which go part by part; for all nodes and some of them."""
    sums, n = over(mode, graph, variant).sums(Normalised.symmetric(graph, torch.double)), graph.num_nodes
    assert sums.edges is not None
    apart = Sums(graph, sums.edges.clone().requires_grad_(), sums.loop, sums.listed, sums.everyone)
    assert apart._constant is None
    for targets in (None, torch.tensor([n - 1, 1, 2])):
        x = torch.eye(n, dtype=torch.double, requires_grad=True)
        whole = sums.at(targets).apply(x)
        torch.testing.assert_close(whole, apart.at(targets).apply(x))
        direction = normal(*whole.shape)
        (back,) = torch.autograd.grad(whole, x, direction)
        torch.testing.assert_close(back, whole.detach().t() @ direction)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_any_order(mode):
    graph = GRAPHS["batch"]
    sums, x = over(mode, graph).sums(Normalised.symmetric(graph, torch.double)), normal(7, 2).requires_grad_()
    assert torch.autograd.gradcheck(sums.apply, x)
    assert torch.autograd.gradgradcheck(lambda x: sums.apply(x).square(), x)


def pattern_of(mask: Tensor, symmetric: bool = False) -> Pattern:
    target, source = mask.nonzero().t()
    pointer = row_pointer(target, len(mask))
    if symmetric:
        return Pattern(pointer, source, len(mask), torch.argsort(source, stable=True))
    return Pattern.general(pointer, source, mask.shape[1])


UPPER = (normal(6, 6) > 0).triu(1)
PATTERNS = {
    "rectangular": pattern_of(normal(4, 6) > 0),
    "symmetric": pattern_of(UPPER | UPPER.t(), symmetric=True),
    "empty rows": pattern_of(normal(6, 3) > 0.8),
    "empty": pattern_of(torch.zeros(3, 4, dtype=torch.bool)),
    "full": pattern_of(torch.ones(3, 3, dtype=torch.bool)),
}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))


def dense(pattern: Pattern, values: Tensor) -> Tensor:
    return values.new_zeros(pattern.rows, pattern.columns).index_put((pattern.target, pattern.source), values)


@every_pattern
def test_products_are_dense_products(pattern):
    values, x, y = normal(pattern.size), normal(pattern.columns, 5, seed=1), normal(pattern.rows, 5, seed=2)
    matrix = dense(pattern, values)
    torch.testing.assert_close(product(values, x, pattern), matrix @ x)
    torch.testing.assert_close(at_entries(y, x, pattern), (y @ x.t())[pattern.target, pattern.source])
    torch.testing.assert_close(pattern.row_sum(values), matrix.sum(1))
    torch.testing.assert_close(pattern.column_sum(values), matrix.sum(0))
    rows = torch.tensor([2, 0])
    block, entries = pattern.block(rows)
    torch.testing.assert_close(dense(block, values[entries]), matrix[rows])
    assert pattern.block(rows)[0] is block


@every_pattern
def test_derivatives(pattern):
    """Of products and of inner products at entries, twice, against finite differences."""
    shapes = ((pattern.size,), (pattern.columns, 3), (pattern.rows, 3))
    values, x, y = (normal(*shape).requires_grad_() for shape in shapes)
    for apply, inputs in ((product, (values, x)), (at_entries, (y, x))):
        assert torch.autograd.gradcheck(lambda *given, of=apply: of(*given, pattern), inputs)
        assert torch.autograd.gradgradcheck(lambda *given, of=apply: of(*given, pattern), inputs)


def test_features_that_are_mostly_zero_become_sparse_once_they_came_thrice(monkeypatch):
    """A bag of words given dense; made anew, changed in place, wanting gradients or dense at heart, it stays dense."""
    monkeypatch.setattr("rade.nn.linear.MANY", 1)
    x = torch.zeros(40, 20)
    x[torch.arange(40), torch.arange(40) % 20] = 1.0
    assert [as_sparse(x).layout for _ in range(4)] == [torch.strided] * 2 + [torch.sparse_csr] * 2
    assert torch.equal(as_sparse(x).to_dense(), x)
    x[0, 3] = 2.0
    assert as_sparse(x) is x
    for given in (torch.ones(40, 20), x.clone().requires_grad_(), x.to(torch.bfloat16)):
        assert all(as_sparse(given) is given for _ in range(5))
    assert all(as_sparse(x * 2.0).layout == torch.strided for _ in range(5))
