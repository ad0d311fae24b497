"""Exact attention: moments, corrected means and slopes against all subsets, by cells and by pairs; any scores."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from core.dense_attention import SLOPE, Case, all_subsets, batched, fine_integral, found, normal, random_graph
from rade.correction import factors
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments import Attention
from rade.moments.attention import attention as module
from rade.moments.attention import delta as expansion
from rade.moments.attention import exact as lattice
from rade.moments.attention.exact import DenominatorByPairs
from rade.moments.attention.exact_cells import DenominatorByCells

SMALL = random_graph(9, 12)
MANY = batched([random_graph(n, m, seed=n) for n, m in ((60, 150), (1, 0), (2, 0), (90, 100))])


@pytest.fixture(params=["cells", "pairs"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """Both forms of the exact denominator, whatever the library would choose."""
    listing(monkeypatch, request.param == "pairs")
    return DenominatorByPairs if request.param == "pairs" else DenominatorByCells


def listing(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    for user in (module, expansion):
        monkeypatch.setattr(user, "listing_is_cheaper", lambda scores: listed)


def case_of(heads: int, loops: bool, std: float, p: float, rho: float, graph: Graph = SMALL, seed: int = 3) -> Case:
    s, t = std * normal(2, graph.num_nodes, heads, seed=seed)
    return Case(graph, s, t, p, min(1.0, rho * graph.density), loops)


def distribution_of(case: Case, **correction: object) -> Distribution:
    return Distribution(case.graph, Rates(case.p, case.q), correction=Correction(**correction))  # type: ignore[arg-type]


def relative(value: Tensor, target: Tensor) -> float:
    """Largest relative error where the target is not zero; the value must vanish where it is."""
    assert bool((value[target == 0].abs() <= 1e-12).all())
    return float((value / target - 1)[target != 0].abs().max()) if bool((target != 0).any()) else 0.0


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("std", [0.0, 1.0, 2.0])
def test_moments_are_those_of_all_subsets(way, std, loops):
    """Every pair and loop on its own, relative to its own value: means 2e-5, squares 3e-4."""
    for p, rho, heads in itertools.product((0.0, 0.5, 0.8), (0.5, 1.5), (1, 4)):
        case = case_of(heads, loops, std, p, rho)
        seen, true = found(case.attention(), distribution_of(case)), all_subsets(case)
        assert relative(seen.mean, true.mean) <= 2e-5, (p, rho, heads)
        assert relative(seen.loop, true.loop) <= 2e-5, (p, rho, heads)
        assert relative(seen.square, true.square) <= 3e-4, (p, rho, heads)


def test_a_batch_of_small_graphs(way):
    """Five graphs of different size as one batch, one of them a single node: each as if alone."""
    graphs = [random_graph(n, m, seed=n) for n, m in ((5, 4), (7, 12), (1, 0), (3, 1), (8, 9))]
    case = case_of(2, True, 1.5, 0.5, 1.0, batched(graphs))
    seen, true = found(case.attention(), distribution_of(case)), all_subsets(case)
    assert relative(seen.mean, true.mean) <= 2e-5
    assert relative(seen.loop, true.loop) <= 2e-5


def scores(kind: str, n: int, heads: int) -> tuple[Tensor, Tensor]:
    s, t, z = normal(3, n, heads, seed=7)
    wide = torch.zeros(n, heads, dtype=torch.double)
    wide[:6] = torch.tensor([800.0, 800.0, 799.0, 300.0, -800.0, 40.0])[:, None]
    even = (s - s.min()) / (s.max() - s.min())
    return {
        "equal": (0 * s, 0 * t),
        "normal": (s, t),
        "student": (2 * s / z.abs().clamp(min=0.05), 2 * t / z.abs().roll(1).clamp(min=0.05)),
        "outliers": (s + wide, t + wide.roll(9)),
        "uniform": (1600 * even - 800, 1600 * even.roll(3) - 800),
    }[kind]


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("kind", ["equal", "normal", "student", "outliers", "uniform"])
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_all_that_a_node_hears_adds_up(way, kind, loops, p):
    """Σ_j E[α'_ij] + E[α'_ii] = 1 − P(nobody is heard), for any graph and any scores; no reference needed."""
    if way is DenominatorByCells and kind == "uniform":
        pytest.skip("thousands of cells and levels: such scores are what the pairs are for")
    graph = batched([random_graph(40, 80), random_graph(25, 20, seed=1)])
    case = Case(graph, *scores(kind, 65, 2), p, 0.02, loops)
    attention = case.attention()
    mean = attention.mean(distribution_of(case))
    ones = torch.ones(65, 2, 1, dtype=torch.double)
    total = mean.nonedges.apply(ones).squeeze(2) + graph.pattern.row_sum(mean.edges) + mean.loop
    nobody = (1.0 - case.rate).log().sum(1).exp() * (not loops)
    assert float((total - 1 + nobody[:, None]).abs().max()) <= 2e-5


@pytest.mark.parametrize("loops", [False, True])
def test_of_scores_far_apart_the_heaviest_takes_all(loops):
    """Scores in ±800: E[α'_ij] = π_ij · P(nothing heavier is on), where no other weight is near."""
    graph = random_graph(40, 80)
    case = Case(graph, *(x[:, :1] for x in scores("uniform", 40, 1)), 0.5, 0.02, loops)
    seen, beta, rate = found(case.attention(), distribution_of(case)).mean[..., 0], case.log_weight[..., 0], case.rate
    heavier = torch.where(beta[:, None] > beta[:, :, None], torch.log1p(-rate)[:, None], 0.0).sum(2).exp()
    expected = heavier * rate * (beta > case.own)
    apart = (beta[:, None] - beta[:, :, None]).abs() + 99 * torch.eye(40)
    clear = (apart.amin(2) > 12) & ((beta - case.own).abs() > 12) & (expected > 1e-6)
    assert int(clear.sum()) > 100
    assert relative(seen[clear], expected[clear]) <= 2e-5


def test_single_precision_is_within_a_thousandth(way):
    """Of every entry of the corrected operator and of E[α']: scores and messages in float32."""
    for loops, std in itertools.product((False, True), (1.0, 2.0)):
        case = case_of(2, loops, std, 0.5, 0.5, random_graph(60, 150))
        single, double = (
            found(case.attention(dtype), distribution_of(case)) for dtype in (torch.float32, torch.double)
        )
        edges = (double.mean > 0) & case.edge[..., None]
        assert relative(single.mean.double()[edges], double.mean[edges]) <= 1e-3
        totals = [(seen.mean.double() * case.other[..., None]).sum(1) for seen in (single, double)]
        assert relative(totals[0], totals[1]) <= 1e-3
        both = [
            factors(case.attention(dtype), distribution_of(case)).edges.double()
            for dtype in (torch.float32, torch.double)
        ]
        assert relative(*both) <= 1e-3


def readings(seen: object, weights: Tensor) -> Tensor:
    """Sums of means, squares and loops with random weights, [3]."""
    parts = (seen.mean, seen.square, seen.loop)  # type: ignore[attr-defined]
    return torch.stack([(part * w[: part.numel()].view_as(part)).sum() for part, w in zip(parts, weights)])


def test_slopes_are_those_of_the_fine_integral(way):
    """In p and q to 1e-4, in the scores to 1e-3, against finite differences of a reference of its own."""
    graph, weights = random_graph(30, 60), normal(3, 30 * 30, seed=1).abs()
    leaves = [normal(30, 1, seed=2), normal(30, 1, seed=3), torch.tensor(0.5).double(), torch.tensor(0.05).double()]
    steps = [1e-5 * normal(30, 1, seed=4), 1e-5 * normal(30, 1, seed=5), torch.tensor(1e-5), torch.tensor(1e-6)]
    inputs = [leaf.clone().requires_grad_() for leaf in leaves]
    case = Case(graph, *inputs, True)
    out = readings(found(case.attention(), distribution_of(case)), weights)
    for k, (step, bound) in enumerate(zip(steps, (1e-3, 1e-3, 1e-4, 1e-4))):
        moved = [[x + sign * step if i == k else x for i, x in enumerate(leaves)] for sign in (1, -1)]
        above, below = (readings(fine_integral(Case(graph, *x, True)), weights) for x in moved)
        slope = torch.stack([(torch.autograd.grad(y, inputs[k], retain_graph=True)[0] * step).sum() for y in out])
        assert float((2 * slope / (above - below) - 1).abs().max()) <= bound, k


def test_derivatives_of_both_orders(way):
    """Of factors, means and sums over non-edges, in s, t, p and q: by themselves consistent."""
    graph = random_graph(6, 6)
    inputs = [x.requires_grad_() for x in (normal(6, 1), normal(6, 1, seed=1))]
    rates = [torch.tensor(x, dtype=torch.double, requires_grad=True) for x in (0.4, 0.2)]

    def everything(s: Tensor, t: Tensor, p: Tensor, q: Tensor) -> Tensor:
        case = Case(graph, s, t, p, q, True)
        seen = factors(case.attention(), distribution_of(case))
        return torch.cat([seen.edges.flatten(), seen.loop.flatten(), seen.total.flatten()])

    assert torch.autograd.gradcheck(everything, [*inputs, *rates], fast_mode=True, atol=1e-6)
    assert torch.autograd.gradgradcheck(everything, [*inputs, *rates], fast_mode=True, atol=2e-3)


def test_groups_of_targets_are_recomputed(monkeypatch):
    """The pairs in groups of one target each: same values, same derivatives."""
    listing(monkeypatch, True)
    outs = []
    for budget in (2**30, 1):
        monkeypatch.setattr(lattice, "BUDGET", budget)
        s = normal(9, 2).requires_grad_()
        case = Case(SMALL, s, normal(9, 2, seed=1), 0.5, 0.1, False)
        seen = factors(case.attention(), distribution_of(case))
        out = seen.edges.sum() + seen.total.square().sum()
        outs.append((out.detach(), torch.autograd.grad(out, s)[0]))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-6)


def test_gaps_beyond_forty_are_narrowed_without_effect(monkeypatch):
    listing(monkeypatch, True)
    s, t = scores("uniform", 40, 2)
    case = Case(random_graph(40, 80), s, t, 0.5, 0.02, True)
    plain = found(case.attention(), distribution_of(case))
    monkeypatch.setattr(lattice, "MOST_LEVELS", 1)
    narrow = found(case.attention(), distribution_of(case))
    torch.testing.assert_close(narrow.mean, plain.mean, rtol=3e-5, atol=1e-5)
    huge = Case(case.graph, 1e6 * s, 1e6 * t, 0.5, 0.02, True)
    total = found(huge.attention(), distribution_of(huge)).mean.sum(1)
    assert bool((total <= 1 + 1e-5).all())


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_one_heavy_neighbor_leaves_the_others_alone(monkeypatch, moments, dtype):
    """A ring of 50 with one score of 40: all − edges − loop would leave nothing but rounding for its neighbors."""
    listing(monkeypatch, False)
    n, i = 50, torch.arange(50)
    graph = Graph.from_edge_index(torch.stack([torch.cat([i, (i + 1) % n]), torch.cat([(i + 1) % n, i])]), n)
    s = torch.zeros(n, 1, dtype=torch.double)
    s[0] = 40.0
    for p, loops in ((0.5, True), (0.0, False)):
        case = Case(graph, s, 0 * s, p, 0.02, loops)
        attention, distribution = case.attention(dtype), distribution_of(case, moments=moments)
        mean, seen = attention.mean(distribution), factors(attention, distribution)
        x = normal(n, 1, 1).to(dtype)
        assert bool((seen.total > 0).all())
        if moments == "exact":
            true = fine_integral(case).mean[..., 0] * case.other
            assert relative(seen.total[:, 0].double(), true.sum(1)) <= 3e-5
            centre = (mean.nonedges.apply(x) / seen.total[..., None])[:, 0, 0].double()
            torch.testing.assert_close(centre, true @ x[:, 0, 0].double() / true.sum(1), rtol=1e-4, atol=1e-4)
        assert float((mean.nonedges.apply(x) / seen.total[..., None]).abs().max()) <= float(x.abs().max())


def test_who_lists_pairs():
    """Small graphs, and scores that would need too many cells; not Cora's size with ordinary scores."""
    large, small = random_graph(1500, 3000), batched([random_graph(8, 10, seed=k) for k in range(4)])
    assert lattice.listing_is_cheaper(Case(small, normal(32, 1), normal(32, 1), 0.5, 0.1, True).attention().scores)
    for scale, listed in ((1.0, False), (2000.0, True)):
        scores = Case(large, scale * normal(1500, 1), scale * normal(1500, 1), 0.5, 0.1, True).attention().scores
        assert lattice.listing_is_cheaper(scores) is listed


def test_a_falling_slope_is_refused():
    with pytest.raises(ValueError, match="slope of LeakyReLU must be >= 0"):
        Attention(SMALL, normal(9, 1), normal(9, 1), slope=-SLOPE)


def test_many_nodes_are_those_of_the_fine_integral(way):
    """150 nodes in four graphs: blocks of sorted scores, full and empty cells; double and single precision."""
    for scale, loops in ((0.0, True), (1.0, True), (3.0, False)):
        case = Case(MANY, scale * normal(153, 2), scale * normal(153, 2, seed=1), 0.5, 0.05, loops)
        seen, true = found(case.attention(), distribution_of(case)), fine_integral(case)
        heard = true.mean > 1e-9  # of the others rounding may be all that is left
        assert float((seen.mean / true.mean - 1)[heard].abs().max()) <= 3e-5
        assert float((seen.square / true.square - 1)[true.square > 1e-9].abs().max()) <= 3e-4
        assert float(seen.mean[~heard].abs().max()) <= 2e-9


def test_nodes_need_not_come_graph_by_graph(way):
    order = torch.randperm(153, generator=torch.Generator().manual_seed(5))
    (s, t), x = normal(2, 153, 2), normal(153, 2, 3, seed=2)
    mixed = Graph.from_edge_index(torch.argsort(order)[MANY.edge_index], 153, MANY.batch[order])
    assert mixed.by_graph is not None
    means = [
        Attention(graph, s[rows], t[rows]).mean(Distribution(graph, Rates(0.5, 0.05))).nonedges
        for graph, rows in ((MANY, slice(None)), (mixed, order))
    ]
    torch.testing.assert_close(means[1].apply(x[order]), means[0].apply(x)[order])


def test_the_expansion_by_cells_is_that_by_pairs(monkeypatch):
    """The paper's formulas are the same, whoever sums over non-neighbors: by cells or by list."""
    case, x, seen = Case(MANY, *normal(2, 153, 2), 0.5, 0.05, True), normal(153, 2, 3, seed=2).abs(), []
    for listed in (True, False):
        listing(monkeypatch, listed)
        mean, variance = (
            getattr(case.attention(), what)(distribution_of(case, moments="delta")) for what in ("mean", "variance")
        )
        seen.append((mean.edges, mean.loop, variance.edges, mean.nonedges.apply(x), variance.nonedges.apply(x)))
    for exact, by_cells in zip(*seen):
        torch.testing.assert_close(by_cells, exact, rtol=1e-4, atol=1e-7)
