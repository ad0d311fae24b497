"""What must hold on average over all views: moments, the corrected mean, and each view as the paper writes it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rade.correction import propagate, terms
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments
from rade.testing.aggregators import Aggregator
from rade.testing.cases import INSIDE, SMALL, Case, affordable, expect
from rade.testing.oracle import GRAPHS, AllViews, Build, adjacency, nonedges, one_hot
from rade.view.law import Variant
from rade.view.observed import Observed
from rade.view.rates import Rates
from rade.view.view import MeanView

CORRECTED = (Variant.OF, Variant.OFS)
_FORGOTTEN = (
    " (nothing is said of non-edges, but they do covary: give `covariance` their part, or, where it has no closed "
    "form, declare Aggregator(..., meets=False))"
)
_APART = (
    "covariance of directions that are drawn apart (pooling counts them as independent; where they share a "
    "normalisation, declare Aggregator(..., shares=True))"
)


def on_edges(graph: Graph, values: Tensor) -> Tensor:
    """Values on edges as a matrix, [E, ...] → [n, n, ...]."""
    out = values.new_zeros(graph.num_nodes, graph.num_nodes, *values.shape[1:])
    out[graph.pattern.target, graph.pattern.source] = values
    return out


def on_pairs(graph: Graph, moments: Moments, heads: int | None) -> Tensor:
    """A moment of every pair as a matrix, [n, n] or [n, n, H]."""
    rest = moments.nonedges.apply(one_hot(graph, heads))
    return on_edges(graph, moments.edges) + (rest if heads is None else rest.transpose(1, 2))


def only(mask: Tensor, values: Tensor, heads: int | None) -> Tensor:
    """Values [..., n, n] or, with heads, [..., n, n, H] where the mask [n, n] is true, else 0."""
    return values * (mask if heads is None else mask[..., None])


def called(variant: Variant) -> str:
    """The name of a variant in a sentence."""
    return "uncorrected views" if variant is Variant.NONE else f"RADE-{variant.value.upper()}"


def moments_are_those_of_all_views(aggregator: Aggregator) -> None:
    """E[α'] and Var[α'] of edges, loops and non-edges; variances relative to E[α'²]."""
    for case in affordable(aggregator):
        views, build = case.views(), aggregator.on(case.graph)
        alpha, loop = views.coefficients(build)
        coefficients, law = aggregator.alone(case.graph), views.law
        mean, variance = coefficients.mean(law), coefficients.variance(law)
        allowed, square = aggregator.tolerance, views.mean(alpha.square())
        expect(on_pairs(case.graph, mean, aggregator.heads), views.mean(alpha), allowed, "mean of coefficients", case)
        expect(mean.loop, views.mean(loop), allowed, "mean of loops", case)
        found = on_pairs(case.graph, variance, aggregator.heads)
        expect(found, views.variance(alpha), allowed, "variance of coefficients", case, square)


def both_directions_covary_as_stated(aggregator: Aggregator) -> None:
    """Cov[α'_ij, α'_ji], which pooling needs: on edges and, unless the aggregator cannot tell, on non-edges.

    On directed graphs there is none, unless both directions share a normalisation.
    """
    for case in affordable(aggregator):
        views, build = case.views(), aggregator.on(case.graph)
        alpha, _ = views.coefficients(build)
        centred = alpha - views.mean(alpha)
        enumerated = views.mean(centred * centred.transpose(1, 2))
        square = views.mean(alpha.square())
        if case.graph.directed:
            nothing = enumerated if aggregator.shares else torch.zeros_like(enumerated)
            expect(nothing, enumerated, aggregator.tolerance, _APART, case, square)
            continue
        stated = aggregator.alone(case.graph).covariance(views.law)
        if not aggregator.meets:
            enumerated = only(adjacency(case.graph), enumerated, aggregator.heads)
        found = on_pairs(case.graph, stated, aggregator.heads)
        silent = aggregator.meets and not stated.nonedges.parts
        what = "covariance of both directions" + (_FORGOTTEN if silent else "")
        expect(found, enumerated, aggregator.tolerance, what, case, square)


def corrected_mean_is_what_inference_computes(aggregator: Aggregator) -> None:
    """Every entry of the operator: the clean aggregation for RADE-OF, with expected additions for RADE-OFS."""
    for case in affordable(aggregator):
        build, features = aggregator.on(case.graph), one_hot(case.graph, aggregator.heads)
        coefficients = aggregator.alone(case.graph)
        for variant in CORRECTED:
            views = case.views(variant)
            target = propagate(MeanView(views.law), coefficients, features)
            mean = views.mean(views.aggregate(build, features))
            expect(mean, target, aggregator.tolerance, f"mean over all views of {called(variant)}", case)
            if variant is Variant.OF:
                clean = propagate(case.graph, coefficients, features)
                expect(target, clean, 0.0, "inference of RADE-OF against the clean graph", case)


def denoised_mean_is_what_inference_computes(aggregator: Aggregator) -> None:
    """On a graph that is noisy itself the mean over all views is the denoised aggregation, where there is one."""
    for case in INSIDE:
        build, features = aggregator.on(case.graph), one_hot(case.graph, aggregator.heads)
        coefficients = aggregator.alone(case.graph)
        if type(coefficients).denoised is Coefficients.denoised:
            return
        noise = Rates(0.1, 0.2 * case.graph.density)
        for variant in CORRECTED:
            views = AllViews(replace(case.law(variant), noise=noise))
            target = propagate(MeanView(views.law), coefficients, features)
            mean = views.mean(views.aggregate(build, features))
            expect(mean, target, aggregator.tolerance, f"mean over all views of {called(variant)} under noise", case)
            if variant is Variant.OF:
                alone = propagate(Observed(case.graph, noise), coefficients, features)
                expect(target, alone, 1e-12, "inference of RADE-OF under noise against the denoised graph", case)


def views_are_aggregated_as_the_paper_writes(aggregator: Aggregator) -> None:
    """Edges, loop, additions and centering of each single view, not only their mean; to 1e-10."""
    for case in SMALL:
        build, features = aggregator.on(case.graph), one_hot(case.graph, aggregator.heads)
        for variant in Variant:
            views = case.views(variant)
            seen = views.aggregate(build, features)
            seen = seen if aggregator.heads is None else seen.transpose(2, 3)
            expected = _pair_by_pair(views, aggregator.alone(case.graph), build, aggregator.heads)
            expect(seen, expected, 1e-10, f"single views of {called(variant)}", case)


def without_dropping_and_adding_all_is_clean(aggregator: Aggregator) -> None:
    """At p = q = 0 the only view is the graph, under every variant; to 1e-12, or the tolerance of a lattice."""
    allowed = 1e-12 if aggregator.tolerance <= 1e-8 else aggregator.tolerance
    for name, graph in GRAPHS.items():
        case, features = Case(name, 0.0, 0.0), one_hot(graph, aggregator.heads)
        clean = propagate(graph, aggregator.alone(graph), features)
        for variant in Variant:
            (seen,) = case.views(variant).aggregate(aggregator.on(graph), features)
            expect(seen, clean, allowed, f"the only view of {called(variant)}", case)


def _pair_by_pair(views: AllViews, coefficients: Coefficients, build: Build, heads: int | None) -> Tensor:
    """Eq. 6, 8 and 10 pair by pair on every view, [K, n, n, ...]: what the operators must add up to."""
    graph, law = views.graph, views.law
    alpha, loop = views.coefficients(build)
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    if law.variant is Variant.NONE:
        return alpha + torch.einsum("ki...,ij->kij...", loop, eye)
    of = terms(coefficients, law)
    added = only(nonedges(graph), alpha, heads)
    total = alpha * on_edges(graph, of.edges) + added + torch.einsum("ki...,ij->kij...", loop * of.loop, eye)
    if law.variant is Variant.OFS:
        return total
    mean = only(nonedges(graph), on_pairs(graph, coefficients.mean(law), heads), heads)
    norm = mean.sum(1, keepdim=True)
    return total - added.sum(2, keepdim=True) * (mean / torch.where(norm > 0, norm, 1.0))
