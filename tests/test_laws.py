"""The laws of the correction, for every aggregator: averages over *all* views of small graphs, by probability."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from oracle import GRAPHS, LARGER, RATES, AllViews, adjacency, all_views, error, identity, nonedges, one_hot, undirected
from rade.correction import correction_factor, propagate
from rade.graph.graph import Graph
from rade.moments import Coefficients
from rade.view.view import Correction, Law, MeanView, Rates, Variant
from registry import ALL, EXACT, normal

CORRECTED = [Variant.OF, Variant.OFS]
every_graph = pytest.mark.parametrize("name", [*GRAPHS, *LARGER])
every_rate = pytest.mark.parametrize(("p", "q"), RATES)
exact_ones = pytest.mark.parametrize("aggregator", EXACT, ids=str)
all_of_them = pytest.mark.parametrize("aggregator", ALL, ids=str)


def dense_edges(graph: Graph, values: Tensor) -> Tensor:
    """Values on edges as a matrix, [n, n, ...]."""
    out = values.new_zeros(graph.num_nodes, graph.num_nodes, *values.shape[1:])
    out[graph.pattern.target, graph.pattern.source] = values
    return out


def dense_moment(coefficients: Coefficients, moment: str, law: Law, heads: int | None = None) -> tuple[Tensor, Tensor]:
    """A moment of every pair as a matrix, [n, n] or [n, n, H], and of the loops."""
    found, graph = getattr(coefficients, moment)(law), coefficients.graph
    rest = found.nonedges.apply(one_hot(graph, heads))
    return dense_edges(graph, found.edges) + (rest if heads is None else rest.transpose(1, 2)), found.loop


@every_graph
@every_rate
@exact_ones
def test_moments_are_those_of_all_views(aggregator, name, p, q):
    """E[α'] and Var[α'] of edges, loops and non-edges; variances relative to E[α'²]."""
    views, build = all_views(name, p, q), aggregator.on((GRAPHS | LARGER)[name])
    alpha, loop = views.coefficients(build)
    coefficients = build(views.graph, identity)
    mean, mean_loop = dense_moment(coefficients, "mean", views.law)
    assert error(mean, views.mean(alpha)) <= aggregator.tolerance
    assert error(mean_loop, views.mean(loop)) <= aggregator.tolerance
    variance, _ = dense_moment(coefficients, "variance", views.law)
    assert error(variance, views.variance(alpha), scale=views.mean(alpha.square())) <= aggregator.tolerance


@every_graph
@every_rate
@exact_ones
def test_both_directions_of_an_edge_covary_as_stated(aggregator, name, p, q):
    """Cov[α'_ij, α'_ji], which pooling needs."""
    views, build = all_views(name, p, q), aggregator.on((GRAPHS | LARGER)[name])
    alpha, _ = views.coefficients(build)
    centred = alpha - views.mean(alpha)
    stated, _ = dense_moment(build(views.graph, identity), "cross_covariance", views.law)
    enumerated = views.mean(centred * centred.mT)
    assert error(stated, enumerated, scale=views.mean(alpha.square())) <= aggregator.tolerance


@pytest.mark.parametrize("variant", CORRECTED)
@every_graph
@every_rate
@exact_ones
def test_corrected_mean_is_what_inference_computes(aggregator, name, p, q, variant):
    """Every entry of the operator: the clean aggregation for RADE-OF, with expected additions for RADE-OFS."""
    correction = Correction(variant)
    views, build = all_views(name, p, q).under(correction), aggregator.on((GRAPHS | LARGER)[name])
    coefficients, features = build(views.graph, identity), one_hot(views.graph)
    target = propagate(MeanView(views.graph, views.law), coefficients, features)
    assert error(views.mean(views.aggregate(build, features)), target) <= aggregator.tolerance
    if variant is Variant.OF:
        assert error(target, propagate(views.graph, coefficients, features)) == 0.0


def paper_operator(views: AllViews, coefficients: Coefficients, build, heads: int | None) -> Tensor:
    """Eq. 6, 7 and 10 pair by pair on every view, [K, n, n, ...]: what the operators must add up to."""
    graph, law = views.graph, views.law
    alpha, loop = views.coefficients(build)
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    outside = nonedges(graph).view(graph.num_nodes, graph.num_nodes, *[1] * (alpha.dim() - 3))
    if law.correction.variant is Variant.NONE:
        return alpha + torch.einsum("ki...,ij->kij...", loop, eye)
    factors = correction_factor(coefficients, coefficients.mean(law), law)
    edges = alpha * dense_edges(graph, factors.edges)
    total = edges + alpha * outside + torch.einsum("ki...,ij->kij...", loop * factors.loop, eye)
    if law.correction.variant is Variant.OFS:
        return total
    mean, _ = dense_moment(coefficients, "mean", law, heads)
    mean = mean * outside
    norm = mean.sum(1, keepdim=True)
    centre = mean / torch.where(norm > 0, norm, 1.0)
    return total - (alpha * outside).sum(2, keepdim=True) * centre


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize(("p", "q"), [(0.3, 0.2), (0.5, 0.0), (0.0, 1.0)])
@pytest.mark.parametrize("name", GRAPHS)
@all_of_them
def test_every_view_is_aggregated_as_the_paper_writes_it(aggregator, name, p, q, variant):
    """Edges, loop, additions and centering of each single view, not only their mean."""
    views, build = all_views(name, p, q).under(Correction(variant)), aggregator.on(GRAPHS[name])
    features = one_hot(views.graph, aggregator.heads)
    seen = views.aggregate(build, features)
    seen = seen if aggregator.heads is None else seen.transpose(2, 3)
    expected = paper_operator(views, build(views.graph, identity), build, aggregator.heads)
    assert error(seen, expected) <= 1e-10


@all_of_them
@pytest.mark.parametrize("variant", Variant)
def test_without_dropping_and_adding_every_variant_is_clean(aggregator, variant):
    for name, graph in GRAPHS.items():
        views, build = all_views(name, 0.0, 0.0).under(Correction(variant)), aggregator.on(graph)
        features = one_hot(graph, aggregator.heads)
        clean = propagate(graph, build(graph, identity), features)
        assert error(views.aggregate(build, features)[0], clean) <= 1e-12


@all_of_them
@pytest.mark.parametrize("variant", CORRECTED)
def test_a_batch_is_its_graphs(aggregator, variant):
    """Inference on a batch of a path of three and a path of four nodes, against each alone."""
    parts = [undirected([(0, 1), (1, 2)], 3), undirected([(0, 1), (1, 2), (2, 3)], 4)]
    together = GRAPHS["batch"]
    law, build = Law(Rates(0.3, 0.2), Correction(variant)), aggregator.on(together)
    shape = (7, 3) if aggregator.heads is None else (7, aggregator.heads, 3)
    x = normal(*shape)
    whole = propagate(MeanView(together, law), build(together, identity), x)
    for part, nodes in zip(parts, (slice(0, 3), slice(3, 7))):
        entries = (together.pattern.target >= nodes.start) & (together.pattern.target < nodes.stop)

        def own(values: Tensor, nodes: slice = nodes, entries: Tensor = entries) -> Tensor:
            return values[nodes] if values.shape[0] == 7 else values[entries]

        alone = propagate(MeanView(part, law), build(part, own), x[nodes])
        assert error(whole[nodes], alone) <= 1e-12


@pytest.mark.parametrize("aggregator", EXACT, ids=str)
def test_delta_moments_are_near_and_monte_carlo_converges(aggregator):
    """The alternatives against exact moments: 12 % for the expansion on these tiny degrees, 4 % for 4,096 draws.

    A mean of 4,096 draws of a degree function deviates by less than 1 % here (one standard error); seed fixed.
    """
    graph = GRAPHS["path"]
    coefficients = aggregator.on(graph)(graph, identity)
    rates, generator = Rates(0.3, 0.2), torch.Generator().manual_seed(0)
    exact, _ = dense_moment(coefficients, "mean", Law(rates))
    delta, _ = dense_moment(coefficients, "mean", Law(rates, Correction(moments="delta")))
    drawn = Law(rates, Correction(moments="monte-carlo", samples=4096), generator)
    assert error(delta, exact) <= 0.12
    assert error(dense_moment(coefficients, "mean", drawn)[0], exact) <= 0.04
    assert bool(adjacency(graph).any())
