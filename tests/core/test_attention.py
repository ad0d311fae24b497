"""Attention: moments and slopes against a fine integral, on grids and by pairs, at both tolerances; any scores.

The laws hold it against all views of small graphs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from core.dense_attention import SLOPE, Case, batched, fine_integral, found, normal, random_graph
from rade import RADE, Variant
from rade.correction import factors
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments import Attention, ScoredAttention
from rade.moments.attention import attention as module
from rade.moments.attention import delta as expansion
from rade.moments.attention import exact as lattice
from rade.moments.attention.exact import lattice_for
from rade.moments.attention.scores import Attributes, FeatureScores
from rade.testing import GRAPHS
from rade.views import draw

MANY = batched([random_graph(n, m, seed=n) for n, m in ((60, 150), (1, 0), (2, 0), (90, 100))])


@pytest.fixture(params=["pairs", "grid"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both forms of the exact denominator where all pairs are listed, whatever the library would choose."""
    listing(monkeypatch, request.param == "pairs")
    return request.param


def listing(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    monkeypatch.setattr(module, "listing_is_cheaper", lambda scores: listed)
    monkeypatch.setattr(expansion, "few_pairs", lambda graph, heads: listed)


def distribution_of(case: Case, tolerance: float = 1e-5, **correction: object) -> Distribution:
    return Distribution(
        case.graph,
        Rates(case.p, case.q),
        correction=Correction(tolerance=tolerance, **correction),  # type: ignore[arg-type]
    )


def relative(value: Tensor, target: Tensor) -> float:
    """Largest relative error where the target is not zero; the value must vanish where it is."""
    assert bool((value[target == 0].abs() <= 1e-12).all())
    return float((value / target - 1)[target != 0].abs().max()) if bool((target != 0).any()) else 0.0


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
    if way != "pairs" and kind in ("outliers", "uniform"):
        pytest.skip("thousands of points and levels: such scores are what the pairs are for")
    graph = batched([random_graph(40, 80), random_graph(25, 20, seed=1)])
    case = Case(graph, *scores(kind, 65, 2), p, 0.02, loops)
    attention = case.attention()
    mean = attention.mean(distribution_of(case))
    ones = torch.ones(65, 2, 1, dtype=torch.double)
    total = mean.nonedges.apply(ones).squeeze(2) + graph.pattern.row_sum(mean.edges) + mean.loop
    nobody = (1.0 - case.rate).log().sum(1).exp() * (not loops)
    assert float((total - 1 + nobody[:, None]).abs().max()) <= 2e-5


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


def test_groups_of_targets_are_recomputed(monkeypatch):
    """The pairs in groups of one target each: same values, same derivatives."""
    listing(monkeypatch, True)
    outs = []
    for budget in (2**30, 1):
        monkeypatch.setattr(lattice, "BUDGET", budget)
        s = normal(9, 2).requires_grad_()
        case = Case(random_graph(9, 12), s, normal(9, 2, seed=1), 0.5, 0.1, False)
        seen = factors(case.attention(), distribution_of(case))
        out = seen.edges.sum() + seen.total.square().sum()
        outs.append((out.detach(), torch.autograd.grad(out, s)[0]))
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-6)


def test_a_falling_slope_is_refused():
    with pytest.raises(ValueError, match="slope of LeakyReLU must be >= 0"):
        Attention(random_graph(9, 12), normal(9, 1), normal(9, 1), slope=-SLOPE)


def check_moments(case: Case, tolerance: float, allowed: float) -> None:
    """Means of edges and loops as allowed, of squares ten times as much; centred additions have no mean."""
    attention, distribution, graph = case.attention(), distribution_of(case, tolerance), case.graph
    mean, variance, true = attention.mean(distribution), attention.variance(distribution), fine_integral(case)
    at, others = (graph.pattern.target, graph.pattern.source), true.mean * case.other[..., None]
    x = normal(graph.num_nodes, 2, 3, seed=2)
    found = ((mean.edges, true.mean[at], 1), (variance.edges + mean.edges.square(), true.square[at], 10))
    for seen, exact, times in (*found, (mean.loop, true.loop, 1)):
        assert bool(((seen / exact - 1)[exact > 1e-30].abs() <= times * allowed).all())
    total = factors(attention, distribution).total[..., None]
    centre = mean.nonedges.apply(x) / torch.where(total != 0, total, 1.0)
    bias = others.sum(1)[..., None] * centre - torch.einsum("ijh,jhf->ihf", others, x)
    assert float(bias.abs().max()) <= allowed


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
@pytest.mark.parametrize(("p", "q"), [(0.0, 0.1), (0.5, 0.05), (0.8, 0.6)])
@pytest.mark.parametrize(("scale", "loops"), [(0.0, True), (1.0, True), (3.0, False), (20.0, True)])
@pytest.mark.parametrize("graph", [random_graph(9, 12), MANY], ids=["small", "many"])
def test_moments_are_those_of_the_fine_integral(way, graph, scale, loops, p, q, tolerance):
    n = graph.num_nodes
    case = Case(graph, scale * normal(n, 2), scale * normal(n, 2, seed=1), p, q, loops)
    check_moments(case, tolerance, 1.01 * tolerance)


@pytest.mark.parametrize(("tolerance", "allowed"), [(1e-3, 1e-3), (1e-5, 5e-5)])
@pytest.mark.parametrize(("scale", "loops"), [(0.0, True), (0.1, False), (1.0, True), (3.0, False)])
def test_moments_without_a_list_of_pairs(monkeypatch, scale, loops, tolerance, allowed):
    """Sources and targets on grids, as on large graphs; 300 nodes, in one graph and in two."""
    unlisted(monkeypatch)
    for graph in (random_graph(300, 600), batched([random_graph(n, 2 * n, seed=n) for n in (180, 120)])):
        s, t = scale * normal(2, 300, 2, seed=3)
        check_moments(Case(graph, s + 0.03, t - 0.01, 0.5, 0.01, loops), tolerance, allowed)


def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large graphs."""
    listing(monkeypatch, False)
    monkeypatch.setattr(module, "lattice_for", lambda tolerance: replace(lattice_for(tolerance), listed=0))


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_one_heavy_neighbor_leaves_the_others_alone(monkeypatch, moments, dtype):
    """A ring of 50 with one score of 40: everybody − neighbors would leave nothing but errors for its neighbors."""
    unlisted(monkeypatch)
    ring = torch.stack([torch.arange(50), (torch.arange(50) + 1) % 50])
    graph, s = Graph.from_edge_index(torch.cat([ring, ring.flip(0)], 1), 50), torch.zeros(50, 1, dtype=torch.double)
    s[0], x = 40.0, normal(50, 1, 1).to(dtype)
    for p, loops in ((0.5, True), (0.0, False)):
        case = Case(graph, s, 0 * s, p, 0.02, loops)
        attention, distribution = case.attention(dtype), distribution_of(case, 1e-3, moments=moments)
        total = factors(attention, distribution).total
        centre = attention.mean(distribution).nonedges.apply(x) / total[..., None]
        assert bool((total > 0).all())
        assert float(centre.abs().max()) <= 2 * float(x.abs().max())


def test_gradients_without_a_list_of_pairs(monkeypatch):
    """Of a sum of log E[α'] of edges, against autograd of the fine integral: to a half percent, also in float32."""
    unlisted(monkeypatch)
    graph, weights = random_graph(200, 400), normal(800, 1, seed=8)
    s, t = (x.requires_grad_() for x in normal(2, 200, 1, seed=3).unbind(0))
    case = Case(graph, s, t, 0.5, 0.01, True)
    true = fine_integral(case).mean[graph.pattern.target, graph.pattern.source]
    expected = torch.cat(torch.autograd.grad((weights * true.log()).sum(), (s, t)))
    for dtype in (torch.double, torch.float32):
        seen = case.attention(dtype).mean(distribution_of(case, 1e-3)).edges.double()
        found = torch.cat(torch.autograd.grad((weights * seen.log()).sum(), (s, t)))
        assert float((found - expected).norm()) <= 5e-3 * float(expected.norm())


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


def test_the_expansion_on_a_grid_is_that_by_pairs(monkeypatch):
    """The paper's formulas are the same, whoever sums over non-neighbors: on a grid or by list."""
    case, x, seen = Case(MANY, *normal(2, 153, 2), 0.5, 0.05, True), normal(153, 2, 3, seed=2).abs(), []
    for listed in (True, False):
        listing(monkeypatch, listed)
        mean, variance = (
            getattr(case.attention(), what)(distribution_of(case, moments="delta")) for what in ("mean", "variance")
        )
        seen.append((mean.edges, mean.loop, variance.edges, mean.nonedges.apply(x), variance.nonedges.apply(x)))
    for exact, on_grid in zip(*seen):
        torch.testing.assert_close(on_grid, exact, rtol=2e-2, atol=1e-5)


@pytest.mark.parametrize(
    ("moments", "cap", "bound"),
    [("exact", "auto", float("inf")), ("delta", "auto", 6.0), ("exact", 2.0, 2.0), ("delta", "none", float("inf"))],
)
def test_factors_stay_below_the_cap(moments, cap, bound):
    """3/(1−p) for the expansion alone; what was cut is reported."""
    coefficients = Attention(GRAPHS["star"], 3 * normal(5, 1), 3 * normal(5, 1, seed=1))
    distribution = Distribution(GRAPHS["star"], Rates(0.5, 0.4), correction=Correction(moments=moments, cap=cap))
    found = factors(coefficients, distribution)
    assert coefficients.cap(distribution) == bound
    assert float(found.edges.max()) <= bound
    assert bool(found.clipped.any()) == (float(found.edges.max()) == bound)


def test_scores_of_many_pairs_have_coefficients_but_no_moments():
    """600 nodes: 359,400 pairs are too many to list. Views and the clean graph are summed over all the same."""
    graph, (query, key) = random_graph(600, 1200), normal(2, 600, 1, 3)
    scores = FeatureScores(graph, query, key, lambda q, k: (q * k).sum(-1), True, Attributes())
    attention, distribution = ScoredAttention(scores, torch.double), Distribution(graph, Rates(0.5, 0.001))
    assert not attention.has_moments
    assert not attention.is_exact(distribution)
    weights = attention.on(draw(distribution, torch.Generator().manual_seed(0)))
    assert bool((graph.pattern.row_sum(weights.edges) <= 1.0 + 1e-12).all())
    with pytest.raises(
        ValueError, match="have no moments on 600 nodes, where sums over all non-neighbors have no closed"
    ):
        attention.mean(distribution)
    few = FeatureScores(GRAPHS["star"], query[:5], key[:5], lambda q, k: (q * k).sum(-1), True, Attributes())
    assert ScoredAttention(few, torch.double).has_moments


def edges_of(nodes: int, edges: int) -> Tensor:
    return random_graph(nodes, edges).edge_index


def test_scores_that_underflow_together_agree_with_pyg():
    """All weights 1, edges 0–1 and 2–3, x = 1, 2, 800, 801: relative to the graph's largest the first two vanish."""
    conv = pyg.GATConv(1, 1, bias=False)
    for parameter in conv.parameters():
        torch.nn.init.ones_(parameter)
    x, edge_index = torch.tensor([[1.0], [2.0], [800.0], [801.0]]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    plain, model = conv(x, edge_index), RADE(conv)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)
    torch.testing.assert_close(model.eval()(x, edge_index), plain)


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_features_of_any_scale(scale, variant):
    """Finite values and gradients in training, within the range of the messages; evaluation is the plain layer."""
    torch.manual_seed(0)
    conv, edge_index, x = pyg.GATConv(8, 4, heads=2), edges_of(300, 600), scale * torch.randn(300, 8)
    plain, model = conv(x, edge_index), RADE(conv, variant)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert float(out.detach().abs().max()) <= 1e3 * scale
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)
    if variant is not Variant.OFS:
        torch.testing.assert_close(model.eval()(x, edge_index), plain, rtol=1e-4, atol=1e-5 * scale)
