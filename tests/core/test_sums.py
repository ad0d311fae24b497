"""Sums: the algebra of their weights, and the fast path of constant ones with its transpose, against matrices."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from core.test_graph import MIXED
from rade import Graph, Rates, Variant
from rade.correction import Adjacency
from rade.distribution import Distribution
from rade.moments import Normalised
from rade.sums import LowRank, Messages, Sums, over_nonedges, over_nonedges_by_degree
from rade.testing.aggregators import normal
from rade.testing.oracle import GRAPHS, error, nonedges, on_edges, one_hot
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


@every_graph
def test_heads_are_applied_side_by_side(graph):
    """Values [E, H] and rows [n, H] act on x [n, H, F] head by head."""
    n, heads = graph.num_nodes, 3
    values, loop, x = normal(graph.pattern.size, heads), normal(n, heads, seed=1), normal(n, heads, 2, seed=2)
    rows, whole = normal(n, heads, seed=3), Sums(graph, values, loop)
    for h in range(heads):
        alone = Sums(graph, values[:, h], loop[:, h])
        assert error(whole.apply(x)[:, h], alone.apply(x[:, h])) <= 1e-14
        assert error(whole.scaled(rows).apply(x)[:, h], alone.scaled(rows[:, h]).apply(x[:, h])) <= 1e-14


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


@pytest.mark.parametrize("name", ["path", "batch"])
def test_derivatives_in_the_weights(name):
    """Both orders of reverse mode, through every kind of part."""
    graph = GRAPHS[name]
    n = graph.num_nodes
    inputs = [normal(graph.pattern.size), normal(n, seed=1), *(normal(n, 2, seed=seed) for seed in (2, 3, 4))]

    def apply(values: Tensor, rows: Tensor, left: Tensor, right: Tensor, x: Tensor) -> Tensor:
        return (over_nonedges(graph, left, right).scaled(rows) + Sums(graph, values, rows)).apply(x)

    inputs = [v.requires_grad_() for v in inputs]
    assert torch.autograd.gradcheck(apply, inputs)
    assert torch.autograd.gradgradcheck(apply, inputs, fast_mode=True)


def test_features_are_not_written_to():
    """Parts add to the memory of the sum, never to that of the features."""
    x = normal(7, 2)
    before = x.clone()
    over("view", GRAPHS["batch"]).aggregate(Normalised.symmetric(GRAPHS["batch"], torch.double), x)
    assert torch.equal(x, before)


@every_graph
def test_edges_may_send_messages_of_their_own(graph):
    """Also to some nodes only; what is added later, non-edges, hears what a node sends to anybody."""
    n, pattern = graph.num_nodes, graph.pattern
    messages = Messages(normal(n, 2), normal(pattern.size, 2, seed=1))
    values, added = normal(pattern.size, seed=2), over_nonedges(graph, normal(n, 1), normal(n, 1, seed=3))
    dense = torch.einsum("ij,ijf->if", on_edges(graph, values), on_edges(graph, messages.edges))
    expected = dense + added.apply(messages.nodes)
    found = Sums(graph, values) + added
    assert error(found.apply(messages), expected) <= 1e-12
    some = torch.tensor([1, 0])
    assert error(found.at(some).apply(messages), expected[some]) <= 1e-12
    assert error(Sums(graph, values).apply(one_hot(graph)), on_edges(graph, values)) <= 1e-12
