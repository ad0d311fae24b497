"""Only the rows that are asked for: the same numbers as rows of the whole, for every backbone, adjacency and order."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from looping import looped
from rade.graph import Graph
from rade.graph.nodes import Nodes, nodes_of
from rade.graph.sparse import product, rows_of
from rade.nn.rows import Wanted, plan
from rade.train.backbones import BACKBONES, build_backbone
from rade.view import FreshViews, Law, MeanView, Rates, Variant, sample

NODES, FEATURES = 60, 7


def line_with_chords() -> Graph:
    """A path with a few chords: neighborhoods stay small, so that layers can be restricted."""
    one = torch.cat([torch.arange(NODES - 1), torch.tensor([0, 10, 20])])
    other = torch.cat([torch.arange(1, NODES), torch.tensor([30, 45, 55])])
    return Graph.from_edge_index(torch.stack([torch.cat([one, other]), torch.cat([other, one])]), NODES)


GRAPH = line_with_chords()
X = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0))
ROWS = torch.tensor([3, 58, 31, 10])


def law(variant: Variant, q: float) -> Law:
    return Law(GRAPH, Rates(0.4, q), variant, generator=torch.Generator().manual_seed(1))


def adjacencies() -> dict[str, object]:
    found: dict[str, object] = {"graph": GRAPH}
    for variant in Variant:
        found |= {f"view {variant.value} {q}": sample(law(variant, q)) for q in (0.0, 0.05)}
        found[f"mean {variant.value}"] = MeanView(law(variant, 0.05))
    return found


ADJACENCIES = adjacencies()


@looped("sparse", [False, True])
@looped("name", ADJACENCIES)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_wanted_rows_are_rows_of_the_whole(backbone, name, sparse):
    """Logits and gradients, to single precision."""
    torch.manual_seed(2)
    net = build_backbone(backbone, FEATURES, 5, 3)
    x = X.relu().to_sparse_csr() if sparse else X
    gradients = []
    for wanted in (None, Wanted(ROWS), Wanted(ROWS, everybody=True)):
        logits = net(x, ADJACENCIES[name], wanted=wanted)
        logits = logits[ROWS] if wanted is None else logits
        net.zero_grad()
        logits.square().sum().backward()
        gradients.append((logits.detach(), [p.grad.clone() for p in net.parameters()]))
    for logits, found in gradients[1:]:
        torch.testing.assert_close(logits, gradients[0][0], rtol=1e-4, atol=1e-5)
        for mine, theirs in zip(found, gradients[0][1]):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("q", [0.0, 0.05])
@pytest.mark.parametrize("variant", Variant)
def test_views_of_each_layer_are_drawn_as_if_nothing_were_left_out(variant, q):
    torch.manual_seed(2)
    net = build_backbone("gcn", FEATURES, 5, 3)
    whole, rows = (net(X, FreshViews(law(variant, q)), wanted=wanted) for wanted in (None, Wanted(ROWS)))
    torch.testing.assert_close(rows, whole[ROWS], rtol=1e-4, atol=1e-5)


def test_layers_before_are_computed_where_they_are_heard():
    net = build_backbone("gcn", FEATURES, 5, 3)
    found = plan(GRAPH, list(net.convolutions), Wanted(torch.tensor([20])))
    assert [layer.nodes.index.tolist() for layer in found.layers] == [[19, 20, 21, 55], [20]]
    assert found.inputs.index.tolist() == [18, 19, 20, 21, 22, 54, 55, 56]
    everybody = plan(GRAPH, list(net.convolutions), Wanted(torch.tensor([20]), everybody=True))
    assert everybody.layers[0] is GRAPH
    assert everybody.inputs is None


def test_a_block_is_its_part_of_the_matrix_and_so_is_its_transpose():
    values = torch.rand(GRAPH.pattern.size)
    matrix = GRAPH.pattern.matrix(values).to_dense()
    rows = nodes_of(ROWS, NODES)
    given = GRAPH.neighborhood(rows)
    block, entries = GRAPH.pattern.block(rows, given)
    part = matrix[ROWS][:, given.index]
    torch.testing.assert_close(product(values[entries], torch.eye(given.count), block), part)
    back = product(block.transposed_values(values[entries]), torch.eye(rows.count), block.transpose)
    torch.testing.assert_close(back, part.t())


def test_rows_of_a_sparse_matrix():
    assert torch.equal(rows_of(X.relu().to_sparse_csr(), ROWS).to_dense(), X.relu()[ROWS])


def test_rows_are_checked_in_a_sentence():
    with pytest.raises(ValueError, match="at most once"):
        nodes_of(torch.tensor([1, 1]), NODES)
    with pytest.raises(ValueError, match="between 0 and 59"):
        nodes_of(torch.tensor([60]), NODES)
    with pytest.raises(ValueError, match="int64 node ids"):
        nodes_of(torch.tensor([1.0]), NODES)


def test_all_nodes_in_order_are_everybody():
    assert Nodes(torch.arange(5), 5).everybody
    assert not Nodes(torch.tensor([1, 0]), 2).everybody


def test_graphs_picked_from_a_batch_are_those_built_anew():
    """Every field, for graphs out of order, one of them without edges."""
    edges = torch.tensor([[1, 0, 2, 1, 4, 3, 3, 5, 6, 7], [0, 1, 1, 2, 3, 4, 5, 3, 7, 6]])
    batch, ptr = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 3]), torch.tensor([0, 3, 6, 8, 9])
    whole = Graph.from_edge_index(edges, 9, batch, ptr)
    picked = whole.pick(torch.tensor([3, 1, 0]))
    there = torch.tensor([[2, 1, 1, 3, 5, 4, 6, 5], [1, 2, 3, 1, 4, 5, 5, 6]])
    anew = Graph.from_edge_index(there, 7, torch.tensor([0, 1, 1, 1, 2, 2, 2]), torch.tensor([0, 1, 4, 7]))
    for name in ("rowptr", "source", "transposition"):
        assert torch.equal(getattr(picked.pattern, name), getattr(anew.pattern, name)), name
    for name in ("order", "batch", "ptr", "degree", "edge_rank"):
        assert torch.equal(getattr(picked, name), getattr(anew, name)), name


def test_rows_that_outlive_graphs_keep_the_last_two_of_them_alive():
    """A split's rows live as long as the data; every run sorts a graph of its own."""
    rows, alive = torch.tensor([3, 5, 8]), []
    for _ in range(6):
        graph = line_with_chords()
        assert graph.neighborhood(nodes_of(rows, NODES)) is graph.neighborhood(nodes_of(rows, NODES))
        alive.append(weakref.ref(graph))
    del graph
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 2
