"""Attention: moments and slopes against a fine integral, on grids and by pairs, at both tolerances; any scores.

The laws hold it against all views of small graphs.
"""

import math
from dataclasses import dataclass

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn.functional import leaky_relu

from rade import RADE, Variant
from rade.correction import factors
from rade.distribution import Correction, Distribution, Rates
from rade.graph.graph import Graph
from rade.moments import Attention
from rade.moments.attention import attention as module
from rade.moments.attention import delta as expansion
from rade.testing import GRAPHS
from rade.testing.aggregators import normal
from rade.testing.oracle import adjacency, nonedges


def random_graph(nodes: int, edges: int, seed: int = 0) -> Graph:
    """About ``edges`` edges, the first node isolated where there are enough nodes."""
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.triu_indices(nodes, nodes, 1)
    free = low > 0
    chosen = free.nonzero().squeeze(1)[torch.randperm(int(free.sum()), generator=generator)[:edges]]
    pairs = torch.stack([low[chosen], high[chosen]])
    return Graph.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), nodes)


def mixed(graphs: list[Graph], seed: int = 0) -> Graph:
    """A batch whose nodes do not come graph by graph."""
    first = torch.tensor([0, *(graph.num_nodes for graph in graphs)]).cumsum(0)
    edges = torch.cat([graph.edge_index + begin for graph, begin in zip(graphs, first.tolist())], 1)
    batch = torch.repeat_interleave(torch.arange(len(graphs)), first.diff())
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(seed))
    return Graph.from_edge_index(torch.argsort(order)[edges], len(batch), batch[order])


@dataclass
class Case:
    """A graph with scores [n, H] and rates; differentiable in all of them."""

    graph: Graph
    s: Tensor
    t: Tensor
    p: float | Tensor
    q: float | Tensor
    loops: bool

    def attention(self, dtype: torch.dtype = torch.double) -> Attention:
        return Attention(self.graph, self.s.to(dtype), self.t.to(dtype), 0.2, self.loops)

    @property
    def rate(self) -> Tensor:
        """Probability of every pair, [n, n]."""
        edge, other = adjacency(self.graph), nonedges(self.graph)
        return torch.where(edge, 1.0 - self.p, 0.0) + torch.where(other, self.q, 0.0).double()

    @property
    def log_weight(self) -> Tensor:
        """[n, n, H], target first."""
        return leaky_relu(self.s + self.t[:, None], 0.2)

    @property
    def own(self) -> Tensor:
        beta = leaky_relu(self.s + self.t, 0.2)
        return beta if self.loops else torch.full_like(beta, -torch.inf)


def fine_integral(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """E[α'], E[α'²] of all pairs, [n, n, H], and E[α'] of loops, [n, H].

    ∫ y^r e^−y exp(L − l) d(log t) by the trapezoid rule over every scale there is, step 0.3 (error 1e-13).
    """
    beta, rate = case.log_weight, case.rate[..., None]
    begin, end = float(-beta.detach().max()) - math.log(len(beta)) - 26, float(-beta.detach().min()) + 4.5
    mean, square, loop = (torch.zeros_like(x) for x in (beta, beta, case.own))
    for tau in torch.arange(begin, end, 0.3, dtype=torch.double):
        y, own = (tau + beta).clamp(max=6.5).exp(), (tau + case.own).clamp(max=6.5).exp()
        each = torch.log((1.0 - rate) + rate * torch.exp(-y))  # y ≤ e^6.5 keeps it finite at rate 1
        total = each.sum(1) - own
        given = y * torch.exp(total[:, None] - each - y)
        mean, square = mean + 0.3 * rate * given, square + 0.3 * rate * y * given
        loop = loop + 0.3 * own * total.exp()
    return mean, square, loop


MANY = mixed([random_graph(n, m, seed=n) for n, m in ((60, 150), (1, 0), (2, 0), (90, 100))])


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """All pairs, grids with a list of pairs, or grids alone, as on large graphs; whatever the library would choose."""
    monkeypatch.setattr(module, "costs", lambda *_: [float(way != name) for name in ("pairs", "grid", "unlisted")])
    monkeypatch.setattr(expansion, "few_pairs", lambda graph, heads: way == "pairs")


def distribution_of(case: Case, tolerance: float = 1e-5, **correction: object) -> Distribution:
    return Distribution(
        case.graph,
        Rates(case.p, case.q),
        correction=Correction(tolerance=tolerance, **correction),  # type: ignore[arg-type]
    )


def check_moments(case: Case, tolerance: float, allowed: float) -> None:
    """Means of edges and loops as allowed, squares to ten times as much; centred additions have no mean."""
    attention, distribution, graph = case.attention(), distribution_of(case, tolerance), case.graph
    mean, variance = attention.mean(distribution), attention.variance(distribution)
    true, square, loop = fine_integral(case)
    at, others = (graph.pattern.target, graph.pattern.source), true * nonedges(graph)[..., None]
    found = ((mean.edges, true[at], 1), (variance.edges + mean.edges.square(), square[at], 10), (mean.loop, loop, 1))
    for seen, exact, times in found:
        assert bool(((seen / exact - 1)[exact > 1e-30].abs() <= times * allowed).all())
    x, total = normal(graph.num_nodes, 2, 3, seed=2), factors(attention, distribution).total[..., None]
    centre = mean.nonedges.apply(x) / torch.where(total != 0, total, 1.0)
    bias = others.sum(1)[..., None] * centre - torch.einsum("ijh,jhf->ihf", others, x)
    assert float(bias.abs().max()) <= allowed


def check_slopes(found: Tensor, exact: Tensor, inputs: list[Tensor], bound: float) -> None:
    """The gradient of a random sum, relative to its norm."""
    weights = normal(len(exact), 1, seed=8)
    pair = [torch.autograd.grad((weights * x).sum(), inputs, retain_graph=True) for x in (found, exact)]
    for one, other in zip(*pair):
        assert float((one - other).norm()) <= bound * float(other.norm())


@pytest.mark.parametrize(
    ("graphs", "nodes", "scale", "way"),
    [(1, 5, 1, "Pairs"), (64, 18, 1, "List"), (128, 18, 2, "List"), (64, 18, 50, "Pairs"), (1, 800, 1, "OfAll")],
)
def test_small_graphs_are_listed_however_many_they_are(graphs, nodes, scale, way):
    """The fastest way, but for five nodes; 128 graphs once went by grids of nodes, which take sixty times as long."""
    graph = mixed([random_graph(nodes, nodes)] * graphs)
    case = Case(graph, *scale * normal(2, graph.num_nodes, 8), 0.5, 0.1, True)
    assert type(case.attention()._denominator(distribution_of(case, 1e-3))).__name__.endswith(way)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
@pytest.mark.parametrize(("p", "q"), [(0.0, 0.1), (0.5, 0.05), (0.8, 0.6)])
@pytest.mark.parametrize(("scale", "loops"), [(0.0, True), (1.0, True), (3.0, False), (20.0, True)])
@pytest.mark.parametrize("graph", [random_graph(9, 12), MANY], ids=["small", "many"])
@pytest.mark.parametrize("way", ["pairs", "grid"])
def test_moments_are_those_of_the_fine_integral(monkeypatch, way, graph, scale, loops, p, q, tolerance):
    choose(monkeypatch, way)
    check_moments(Case(graph, *scale * normal(2, graph.num_nodes, 2), p, q, loops), tolerance, 1.05 * tolerance)


@pytest.mark.parametrize("loops", [False, True])
def test_scores_may_be_far_apart(monkeypatch, loops):
    """Where exponentials overflow: a few scores of ±800 among normal ones."""
    choose(monkeypatch, "pairs")
    s, t = normal(2, 9, 2)
    s[:4, 0], t[3:8] = (
        torch.tensor([800.0, 799.0, -800.0, 40.0]),
        torch.tensor([[800.0], [300.0], [0], [-800.0], [9.0]]),
    )
    check_moments(Case(random_graph(9, 12), s, t, 0.5, 0.02, loops), 1e-5, 2e-5)


@pytest.mark.parametrize(("tolerance", "allowed"), [(1e-3, 1e-3), (1e-5, 5e-5)])
@pytest.mark.parametrize(("scale", "loops"), [(0.0, True), (0.1, False), (1.0, True), (3.0, False)])
def test_moments_without_a_list_of_pairs(monkeypatch, scale, loops, tolerance, allowed):
    """Sources and targets on grids, as on large graphs; 300 nodes in two graphs."""
    choose(monkeypatch, "unlisted")
    graph = mixed([random_graph(n, 2 * n, seed=n) for n in (180, 120)])
    check_moments(Case(graph, *scale * normal(2, 300, 2, seed=3) + 0.01, 0.5, 0.01, loops), tolerance, allowed)


@pytest.mark.parametrize(("tolerance", "dtype"), [(1e-3, torch.float32), (1e-5, torch.double)])
@pytest.mark.parametrize(
    ("way", "bounds"), [("pairs", (4e-3, 2e-4)), ("grid", (1e-2, 2e-4)), ("unlisted", (1e-2, 3e-3))]
)
def test_slopes_are_those_of_the_fine_integral(monkeypatch, way, bounds, tolerance, dtype):
    """Of log E[α'] of edges, of squares and of loops, in the scores and in the rates, by autograd of both.

    At 1e-5 the pairs are more than the budget: they come in two groups of targets, which are computed again.
    """
    choose(monkeypatch, way)
    graph, leaves = random_graph(100, 200), [*normal(2, 100, 1, seed=3), *torch.tensor([0.5, 0.02]).double()]
    inputs = [leaf.clone().requires_grad_() for leaf in leaves]
    case, at = Case(graph, *inputs, True), (graph.pattern.target, graph.pattern.source)
    attention, distribution = case.attention(dtype), distribution_of(case, tolerance)
    mean, variance = attention.mean(distribution), attention.variance(distribution)
    true, square, loop = fine_integral(case)
    seen = (mean.edges, variance.edges + mean.edges.square(), mean.loop)
    for found, exact in zip(seen, (true[at], square[at], loop)):
        check_slopes(found.double().log(), exact.log(), inputs, bounds[tolerance < 1e-3])


def test_slopes_of_saturated_scores(monkeypatch):
    """Scores of deviation 20, default tolerance: an error in the scale of X would be a fifth of the slopes in t."""
    choose(monkeypatch, "pairs")
    inputs = [(20.0 * side).requires_grad_() for side in normal(2, 100, 1, seed=3)]
    case = Case(random_graph(100, 200), *inputs, 0.5, 0.02, True)
    at, (true, _, loop) = (case.graph.pattern.target, case.graph.pattern.source), fine_integral(case)
    mean = case.attention(torch.float32).mean(distribution_of(case, 1e-3))
    check_slopes(mean.edges, true[at], inputs, 0.025)
    check_slopes(mean.loop, loop, inputs, 0.025)


@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
@pytest.mark.parametrize("moments", ["exact", "delta"])
def test_one_heavy_neighbor_leaves_the_others_alone(monkeypatch, moments, dtype):
    """A ring of 50 with one score of 40: everybody − neighbors would leave nothing but errors for its neighbors."""
    choose(monkeypatch, "unlisted")
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


def test_the_expansion_on_a_grid_is_that_by_pairs(monkeypatch):
    """The paper's formulas are the same, whoever sums over non-neighbors: on a grid or by list."""
    case, x, seen = Case(MANY, *normal(2, 153, 2), 0.5, 0.05, True), normal(153, 2, 3, seed=2).abs(), []
    for way in ("pairs", "grid"):
        choose(monkeypatch, way)
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
    """3/(1−p) for the expansion alone."""
    coefficients = Attention(GRAPHS["star"], 3 * normal(5, 1), 3 * normal(5, 1, seed=1))
    distribution = Distribution(GRAPHS["star"], Rates(0.5, 0.4), correction=Correction(moments=moments, cap=cap))
    found = factors(coefficients, distribution)
    assert coefficients.cap(distribution) == bound
    assert float(found.edges.max()) <= bound


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_features_of_any_scale(scale, variant):
    """Finite values and gradients in training, within the range of the messages; evaluation is the plain layer."""
    torch.manual_seed(0)
    conv, edge_index, x = pyg.GATConv(8, 4, heads=2), random_graph(300, 600).edge_index, scale * torch.randn(300, 8)
    plain, model = conv(x, edge_index), RADE(conv, variant)
    out = model.train()(x, edge_index)
    out.sum().backward()
    assert bool(out.isfinite().all())
    assert float(out.detach().abs().max()) <= 1e3 * scale
    assert all(bool(p.grad.isfinite().all()) for p in conv.parameters() if p.grad is not None)
    if variant is not Variant.OFS:
        torch.testing.assert_close(model.eval()(x, edge_index), plain, rtol=1e-4, atol=1e-5 * scale)
