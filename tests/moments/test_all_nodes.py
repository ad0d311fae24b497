"""Sums over all nodes: the blocks below a threshold, scores in cells, kernels, and the list of non-neighbors."""

from __future__ import annotations

import pytest
import torch
from dense_attention import SLOPE, Case, batched, normal, random_graph
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade.moments.attention import denominator, prefix
from rade.moments.attention.all_nodes import AttentionKernel, AttentionSums
from rade.moments.attention.nonneighbors import list_pairs, sample_nonneighbors
from rade.moments.attention.prefix import ThresholdSums
from rade.view.law import Correction, Law
from rade.view.rates import Rates

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
    of = case(scale)
    sums = AttentionSums(of.attention().scores)
    point = sums.cells.log_weights_of(SLOPE, of.t.flatten())
    for who, mask in ((sums.neighbors, of.edge), (sums.others, of.other)):
        found = (who * torch.sigmoid(point)).sum((1, 2)).view(-1, 2)
        expected = (torch.sigmoid(of.log_weight) * mask[..., None]).sum(1)
        assert float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())
    counted = sums.others.sum((1, 2)).view(-1, 2)
    torch.testing.assert_close(counted, GRAPH.nonneighbors[:, None].double().expand(-1, 2), atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_a_kernel_is_the_sum_of_its_entries(scale, dtype):
    """``apply`` over all pairs of four graphs against the entries that ``edges`` and ``loops`` read."""
    of = case(scale)
    sums = AttentionSums(of.attention().scores)
    values = torch.sigmoid(sums.cells.log_weights_of(SLOPE, of.t.flatten()))
    kernel, x = AttentionKernel(sums, values, dtype), normal(GRAPH.num_nodes, 2, 3, seed=2).to(dtype)
    target, source = (GRAPH.batch[:, None] == GRAPH.batch).nonzero().T
    rows = (sums.rows(target).flatten(), sums.rows(source).flatten())
    entries = sums.read(kernel.values, *rows, sums.cells.column(*rows)).view(-1, 2)
    dense = torch.zeros_like(of.log_weight).index_put((target, source), entries)
    expected = torch.einsum("ijh,jhf->ihf", dense, x.double())
    scale_of = torch.einsum("ijh,jhf->ihf", dense.abs(), x.double().abs()).clamp(min=1e-30)
    bound = 1e-12 if dtype == torch.double else 1e-5
    assert float(((kernel.apply(x).double() - expected).abs() / scale_of).max()) <= bound
    edges = dense[GRAPH.pattern.target, GRAPH.pattern.source]
    torch.testing.assert_close(kernel.edges().double(), edges, rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(kernel.loops().double(), dense.diagonal().T, rtol=1e-5, atol=1e-12)
    # Entries interpolate the function, except where no non-neighbor stands: there they are exactly zero.
    kept = of.other[target, source]
    true = torch.sigmoid(leaky_relu(of.s[source] + of.t[target], SLOPE))
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


def test_samples_are_nonneighbors():
    pattern, times = sample_nonneighbors(GRAPH, 50, torch.Generator().manual_seed(0))
    assert bool(case(1.0).other[pattern.target, pattern.source].all())
    drawn = torch.zeros(GRAPH.num_nodes, dtype=torch.long).index_add(0, pattern.target, times)
    assert torch.equal(drawn, 50 * (GRAPH.nonneighbors > 0))


def test_the_expansion_by_cells_is_that_by_pairs(monkeypatch):
    """The paper's formulas are the same, whoever sums over non-neighbors: all by cells, by list, or a large sample."""
    of, found = case(1.0), {}
    for name, listed, complement in (("cells", False, "exact"), ("list", True, "exact"), ("sample", True, "sampled")):
        monkeypatch.setattr(denominator, "listing_is_cheaper", lambda scores, listed=listed: listed)
        correction = Correction(moments="delta", complement=complement, samples=20_000)
        law = Law(GRAPH, Rates(0.5, 0.05), correction=correction, generator=torch.Generator().manual_seed(0))
        mean, variance = of.attention().mean(law), of.attention().variance(law)
        x = normal(GRAPH.num_nodes, 2, 3, seed=2).abs()
        found[name] = mean.edges, mean.loop, variance.edges, mean.nonedges.apply(x), variance.nonedges.apply(x)
    for exact, by_cells, sampled in zip(found["list"], found["cells"], found["sample"]):
        torch.testing.assert_close(by_cells, exact, rtol=1e-4, atol=1e-7)
        assert float((sampled - exact).abs().max() / exact.abs().max()) <= 0.05
