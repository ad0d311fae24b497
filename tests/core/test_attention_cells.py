"""Sums over all nodes: the blocks below a threshold, scores in cells, kernels, and the list of non-neighbors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from core.dense_attention import SLOPE, Case, batched, normal, random_graph
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments.attention import attention, delta, prefix
from rade.moments.attention.cells import AttentionKernel, NodesInCells
from rade.moments.attention.prefix import ThresholdSums
from rade.moments.attention.scores import list_pairs

GRAPH = batched([random_graph(n, m, seed=n) for n, m in ((60, 150), (1, 0), (2, 0), (90, 100))])


def blocks(count: list[int], queries: int, seed: int = 0) -> tuple[ThresholdSums, Tensor, Tensor, Tensor, Tensor]:
    """Cells with ``count`` values in random order, and queries at random thresholds of cells that hold any."""
    generator = torch.Generator().manual_seed(seed)
    number = torch.tensor(count)
    cell = torch.repeat_interleave(number)
    rank = torch.cat([torch.arange(c) for c in count])
    shuffle = torch.randperm(len(cell), generator=generator)
    cell, rank = cell[shuffle], rank[shuffle]
    held = (number > 0).nonzero().squeeze(1)
    asked = held[torch.randint(len(held), (queries,), generator=generator)]
    below = (torch.rand(queries, generator=generator) * (number[asked] + 1)).long().clamp(max=number[asked])
    keys = normal(len(cell), 3, seed=1)
    inside = (cell == asked[:, None]) & (rank < below[:, None])  # [Q, R]
    return ThresholdSums(cell, rank, keys, number, asked, below), keys, inside.double(), cell, below


@pytest.mark.parametrize("count", [[5], [24], [25, 0, 48], [1, 100, 3, 0, 70]])
@pytest.mark.parametrize("queries", [0, 1, 200])
def test_threshold_sums_are_dense_sums(count, queries):
    """Full and empty blocks, cells without values, thresholds before the first and behind the last value."""
    sums, keys, inside, cell, _ = blocks(count, queries)
    coefficient, x = normal(queries, 3, seed=2), normal(sum(count), 4, seed=3)
    below, total = sums.apply(sums.prepare(coefficient, torch.double), x)
    expected = torch.einsum("qj,qk,jk,jf->qf", inside, coefficient, keys, x)
    torch.testing.assert_close(below, expected)
    whole = torch.zeros(len(count), 3, 4, dtype=torch.double).index_add(0, cell, keys[..., None] * x[:, None])
    torch.testing.assert_close(total, whole)


def test_threshold_sums_in_slices(monkeypatch):
    """Wide inputs go in slices that are recomputed: the same values and derivatives."""
    outs = []
    for budget in (2**25, 1):
        monkeypatch.setattr(prefix, "BUDGET", budget)
        sums, *_ = blocks([30, 7], 20)
        x = normal(37, 5, seed=3).requires_grad_()
        below, total = sums.apply(sums.prepare(normal(20, 3, seed=2), torch.double), x)
        out = below.square().sum() + total.square().sum()
        outs.append((out.detach(), torch.autograd.grad(out, x)[0]))
    torch.testing.assert_close(outs[0], outs[1])


def test_a_small_cell_among_large_ones_keeps_single_precision():
    """What other cells hold is added and taken off in double precision."""
    count = [4000, 30, 4000]
    sums, keys, inside, cell, _ = blocks(count, 60)
    x = torch.where(cell[:, None] == 1, 1e-3, 1e3) * normal(sum(count), 2, seed=3)
    coefficient = normal(60, 3, seed=2)
    below, _ = sums.apply(sums.prepare(coefficient, torch.float32), x.float())
    expected = torch.einsum("qj,qk,jk,jf->qf", inside, coefficient, keys, x)
    scale = torch.einsum("qj,qk,jk,jf->qf", inside, coefficient.abs(), keys.abs(), x.abs())
    assert float(((below - expected).abs() / scale.clamp(min=1e-30)).max()) <= 1e-4


def case(scale: float, heads: int = 2) -> Case:
    n = GRAPH.num_nodes
    return Case(GRAPH, scale * normal(n, heads), scale * normal(n, heads, seed=1), 0.5, 0.05, True)


@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_who_stands_where_adds_up_to_dense_sums(scale):
    """Σ f(w) over neighbors and non-neighbors from points of columns, for a smooth function of the weight."""
    here = case(scale)
    sums = NodesInCells(here.attention().scores)
    point = sums.cells.log_weights_of(SLOPE, here.t.flatten())
    for who, mask in ((sums.neighbors, here.edge), (sums.others, here.other)):
        found = (who * torch.sigmoid(point)).sum((1, 2)).view(-1, 2)
        expected = (torch.sigmoid(here.log_weight) * mask[..., None]).sum(1)
        assert float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())
    counted = sums.others.sum((1, 2)).view(-1, 2)
    torch.testing.assert_close(counted, GRAPH.nonneighbors[:, None].double().expand(-1, 2), atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_a_kernel_is_the_sum_of_its_entries(scale, dtype):
    """``apply`` over all pairs of four graphs against the entries that ``edges`` and ``loops`` read."""
    here = case(scale)
    sums = NodesInCells(here.attention().scores)
    values = torch.sigmoid(sums.cells.log_weights_of(SLOPE, here.t.flatten()))
    kernel, x = AttentionKernel(sums, values, dtype), normal(GRAPH.num_nodes, 2, 3, seed=2).to(dtype)
    target, source = (GRAPH.batch[:, None] == GRAPH.batch).nonzero().T
    rows = (sums.rows(target).flatten(), sums.rows(source).flatten())
    entries = sums.read(kernel.values, *rows, sums.cells.column(*rows)).view(-1, 2)
    dense = torch.zeros_like(here.log_weight).index_put((target, source), entries)
    expected = torch.einsum("ijh,jhf->ihf", dense, x.double())
    scale_of = torch.einsum("ijh,jhf->ihf", dense.abs(), x.double().abs()).clamp(min=1e-30)
    bound = 1e-12 if dtype == torch.double else 1e-5
    assert float(((kernel.apply(x).double() - expected).abs() / scale_of).max()) <= bound
    edges = dense[GRAPH.pattern.target, GRAPH.pattern.source]
    off = kernel.over_nonedges()
    assert off.edges is not None
    assert off.loop is not None
    torch.testing.assert_close(-off.edges.double(), edges, rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(-off.loop.double(), dense.diagonal().T, rtol=1e-5, atol=1e-12)
    factor = normal(GRAPH.num_nodes, 2, seed=4).to(dtype)
    torch.testing.assert_close(
        kernel.scaled(factor).scaled(factor).apply(x), factor.square()[..., None] * kernel.apply(x)
    )
    # Entries interpolate the function, except where no non-neighbor stands: there they are exactly zero.
    kept = here.other[target, source]
    true = torch.sigmoid(leaky_relu(here.s[source] + here.t[target], SLOPE))
    torch.testing.assert_close(entries[kept], true[kept], rtol=1e-5, atol=1e-9)
    full = (GRAPH.nonneighbors == 0)[target]
    assert bool(full.any())
    assert bool((entries[full] == 0).all())


def test_pairs_are_listed_once():
    pairs = list_pairs(GRAPH)
    assert pairs is list_pairs(GRAPH)
    same = GRAPH.batch[:, None] == GRAPH.batch
    target, source = (same & ~torch.eye(len(same), dtype=torch.bool)).nonzero().T
    assert torch.equal(pairs.target, target)
    assert torch.equal(pairs.source, source)
    assert torch.equal(torch.stack([source[pairs.edge], target[pairs.edge]]), GRAPH.edge_index)
    other = case(1.0).other.nonzero().T
    assert torch.equal(torch.stack([pairs.pattern.target, pairs.pattern.source]), other)


def test_nodes_need_not_come_graph_by_graph(monkeypatch):
    """Batches in any order of nodes, by cells and by pairs."""
    order = torch.randperm(GRAPH.num_nodes, generator=torch.Generator().manual_seed(5))
    place, (s, t), x = torch.argsort(order), normal(2, GRAPH.num_nodes, 2), normal(GRAPH.num_nodes, 2, 3, seed=2)
    mixed = Graph.from_edge_index(place[GRAPH.edge_index], GRAPH.num_nodes, GRAPH.batch[order])
    assert mixed.by_graph is not None
    for listed in (False, True):
        monkeypatch.setattr(attention, "listing_is_cheaper", lambda scores, listed=listed: listed)
        means = [
            attention.Attention(graph, s[rows], t[rows]).mean(Distribution(graph, Rates(0.5, 0.05))).nonedges
            for graph, rows in ((GRAPH, slice(None)), (mixed, order))
        ]
        torch.testing.assert_close(means[1].apply(x[order]), means[0].apply(x)[order])


def test_the_expansion_by_cells_is_that_by_pairs(monkeypatch):
    """The paper's formulas are the same, whoever sums over non-neighbors: by cells or by list."""
    found = {}
    for name in ("cells", "list"):
        monkeypatch.setattr(delta, "listing_is_cheaper", lambda scores, name=name: name == "list")
        distribution = Distribution(GRAPH, Rates(0.5, 0.05), correction=Correction(moments="delta"))
        mean, variance = case(1.0).attention().mean(distribution), case(1.0).attention().variance(distribution)
        x = normal(GRAPH.num_nodes, 2, 3, seed=2).abs()
        found[name] = mean.edges, mean.loop, variance.edges, mean.nonedges.apply(x), variance.nonedges.apply(x)
    for exact, by_cells in zip(found["list"], found["cells"]):
        torch.testing.assert_close(by_cells, exact, rtol=1e-4, atol=1e-7)
