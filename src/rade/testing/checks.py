"""What every aggregator promises, by name: ``for check in CHECKS.values(): check(mine)`` tests one of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from rade.correction import Adjacency, factors
from rade.distribution import Distribution, Rates, Variant
from rade.moments.base import Coefficients
from rade.moments.denoise import Observed
from rade.rates.variance import LogitMessages, pooled_variance, variance
from rade.sums import Messages
from rade.testing.aggregators import Aggregator, normal
from rade.testing.oracle import (
    CASES,
    AllViews,
    Build,
    Case,
    adjacency,
    expect,
    nonedges,
    on_edges,
    on_pairs,
    one_hot,
)
from rade.views import View, draw

CORRECTED = (Variant.OF, Variant.OFS)
SMALL = CASES[:-1]  # for what asks every view for all its pairs
INSIDE = (CASES[0], CASES[6], CASES[7])  # both rates can move up and down
SUMMING = 1e-12  # rounding of sums that are equal but for their order
SINGLE = 2e-5  # of results in float32, whose unit is 1.2e-7, through divisions by small means
FORGOTTEN = (
    " (nothing is said of non-edges, but they do covary: give `covariance` their part, or, where it has no closed "
    "form, declare Aggregator(..., meets=False))"
)
APART = " (directions are drawn apart: where they share a normalisation, declare Aggregator(..., shares=True))"
# Each returns nothing, or raises an AssertionError that names graph, rates, variant and the error found.
CHECKS: dict[str, Callable[[Aggregator], None]] = {}


def _promise(check: Callable[[Aggregator], None]) -> Callable[[Aggregator], None]:
    CHECKS[check.__name__] = check
    return check


# ---- on average over all views ------------------------------------------------------------------------------------


@_promise
def moments_are_those_of_all_views(aggregator: Aggregator) -> None:
    """E[α'] and Var[α'] of edges, loops and non-edges; variances relative to E[α'²]."""
    for case in _affordable(aggregator):
        views, coefficients = case.views(), aggregator.alone(case.graph)
        alpha, loop = views.coefficients(aggregator.on(case.graph))
        mean, second = coefficients.mean(views.distribution), coefficients.variance(views.distribution)
        allowed, square = aggregator.tolerance, views.mean(alpha.square())
        expect(on_pairs(case.graph, mean, aggregator.heads), views.mean(alpha), allowed, "mean of coefficients", case)
        expect(mean.loop, views.mean(loop), allowed, "mean of loops", case)
        found = on_pairs(case.graph, second, aggregator.heads)
        expect(found, views.variance(alpha), allowed, "variance of coefficients", case, square)


@_promise
def corrected_mean_is_what_inference_computes(aggregator: Aggregator) -> None:
    """Every weight of the sums: the clean aggregation for RADE-OF, with expected additions for RADE-OFS.

    On a graph that is noisy itself the denoised aggregation, where there is one, is in the place of the clean one.
    """
    for case, variant in product(_affordable(aggregator), CORRECTED):
        coefficients, features = aggregator.alone(case.graph), one_hot(case.graph, aggregator.heads)
        clean = Adjacency(case.graph).aggregate(coefficients, features)
        _mean_is_inference(aggregator, case.views(variant), case, clean)
        if case in INSIDE and type(coefficients).denoised is not Coefficients.denoised:
            noisy = replace(case.distribution(variant), noise=Rates(0.1, 0.2 * case.graph.density))
            clean = coefficients.denoised(Observed.of(noisy)).apply(features)
            _mean_is_inference(aggregator, AllViews(noisy), case, clean)


@_promise
def views_are_aggregated_as_the_paper_writes(aggregator: Aggregator) -> None:
    """Edges, loop, additions and centering of each single view, not only their mean; to 1e-10."""
    for case, variant in product(SMALL, Variant):
        build, views = aggregator.on(case.graph), case.views(variant)
        seen = views.aggregate(build, one_hot(case.graph, aggregator.heads))
        seen = seen if aggregator.heads is None else seen.transpose(2, 3)
        expected = _pair_by_pair(views, aggregator.alone(case.graph), build, aggregator.heads)
        expect(seen, expected, 1e-10, f"single views of {_called(variant)}", case)


# ---- variances of logits ------------------------------------------------------------------------------------------


@_promise
def variance_is_that_of_all_views(aggregator: Aggregator) -> None:
    """Var(δ_i) = Σ_j m̃_ij² Var(α'_ij) with enumerated moments, head by head, under every variant (Prop. 3)."""
    for case, views, sent, alpha, corrected in _single_heads(aggregator):
        moments = views.variance(alpha), views.mean(alpha.square())
        expected, scale = (torch.einsum("ij,ijc->ic", moment, corrected.square()) for moment in moments)
        found = variance(sent, views.distribution)
        what = f"variance of logits of {_called(views.distribution.variant)}"
        expect(found.total, expected, aggregator.tolerance, what, case, scale)
        if not bool((torch.minimum(found.drop, found.add) >= -SUMMING * scale.max()).all()):
            raise AssertionError(f"{what}, {case}: a part of the variance is negative")


@_promise
def pooled_variance_lets_both_ends_meet(aggregator: Aggregator) -> None:
    """Σ_{i<j} Var(α'_ij m̃_ij + α'_ji m̃_ji), enumerated, which is what `covariance` is for.

    The two ends do not meet at non-edges of an aggregator that cannot tell how they covary, nor on a directed graph,
    where only aggregators that share a normalisation could show a difference. The paper's rule lets none meet.
    """
    for case, views, sent, alpha, corrected in _single_heads(aggregator):
        graph, distribution, meets = case.graph, views.distribution, torch.ones_like(adjacency(case.graph))
        what = f"pooled variance of {_called(distribution.variant)}, by `covariance`"
        if graph.directed:
            meets, what = meets & (not aggregator.shares), what + APART
        elif not aggregator.meets:
            meets = adjacency(graph)
        else:
            covariance = on_pairs(graph, sent.coefficients.covariance(distribution), aggregator.heads)
            what += "" if bool(covariance[nonedges(graph)].any()) else FORGOTTEN
        out = alpha[..., None] * corrected  # [K, n, n, C]
        pairs = torch.where(meets[..., None], 0.5 * views.variance(out + out.transpose(1, 2)), views.variance(out))
        found = pooled_variance(sent, distribution, mean=False, exact=True).total
        scale = 2.0 * graph.pool(views.mean(out.square()).sum(1))
        expect(found, graph.pool(pairs.sum(1)), aggregator.tolerance, what, case, scale)
        averaged = pooled_variance(sent, distribution, mean=True, exact=True).total
        expect(averaged, found / graph.sizes[:, None].square(), SUMMING, f"{what}, mean pooling", case)
        paper = pooled_variance(sent, distribution, mean=False, exact=False).total
        expect(paper, graph.pool(variance(sent, distribution).total), SUMMING, f"{what}, the paper's rule", case)


# ---- what must not matter, or matter smoothly ----------------------------------------------------------------------


@_promise
def single_precision_is_near_double(aggregator: Aggregator) -> None:
    """Outputs and variances in float32 are within 2e-5 of those in float64, relative to the largest."""
    for case, variant in product(CASES, Variant):
        x, view = aggregator.messages(case.graph), _drawn(case.distribution(variant))
        double = _results(aggregator.alone(case.graph), view, x)
        for what, found in _results(aggregator.alone(case.graph, torch.float), view, x.float()).items():
            if found.dtype != torch.float:
                raise AssertionError(f"{what} in float32, {_called(variant)}, {case}: got {found.dtype}")
            expect(found.double(), double[what], SINGLE, f"{what} in float32, {_called(variant)}", case)


@_promise
def moments_follow_the_rates(aggregator: Aggregator) -> None:
    """Slopes of moments and variances in p and q: finite everywhere, and inside those of finite differences."""
    for case in CASES:
        rates = tuple(torch.tensor(rate, dtype=torch.double, requires_grad=True) for rate in (case.p, case.q))
        values = _of_rates(aggregator, case, Variant.OF)(*rates).sum()
        slopes = torch.autograd.grad(values, rates, allow_unused=True, materialize_grads=True)
        if not bool(torch.stack(slopes).isfinite().all()):
            raise AssertionError(f"slopes in p and q, {case}: got {[float(slope) for slope in slopes]}")
        # Moments with an error of their own may have one in their slopes.
        allowed = max(1e-6, aggregator.tolerance / 100.0)
        for variant in Variant if case is CASES[0] else ():
            try:
                gradcheck(_of_rates(aggregator, case, variant), rates, atol=allowed, fast_mode=True)
            except GradcheckError as wrong:
                raise AssertionError(f"slopes in p and q, {_called(variant)}, {case}: {wrong}") from None


@_promise
def equal_keys_promise_equal_aggregation(aggregator: Aggregator) -> None:
    """Coefficients from other scores or weights, or in another precision, must not share what is kept by key."""
    for case in INSIDE:
        mine, view = aggregator.alone(case.graph), _drawn(case.distribution(Variant.OFS))
        if mine.key is None:
            continue
        if mine.key == aggregator.alone(case.graph, torch.float).key:
            raise AssertionError(f"key {mine.key!r}, {case}: equal in float32 and float64; make the dtype part of it")
        other = aggregator.on(case.graph)(case.graph, lambda x: 2.0 * x + 1.0, torch.double)
        pairs = zip(_all_weights(mine, view), _all_weights(other, view))
        if mine.key == other.key and not all(torch.equal(one, two) for one, two in pairs):
            raise AssertionError(f"key {mine.key!r}, {case}: equal keys, but other coefficients; let it be None")


# ---- how -----------------------------------------------------------------------------------------------------------


def _affordable(aggregator: Aggregator) -> tuple[Case, ...]:
    """All cases; without that of 32,768 views where moments are costly, or coefficients have heads."""
    return SMALL if aggregator.costly or aggregator.heads is not None else CASES


def _only(mask: Tensor, values: Tensor, heads: int | None) -> Tensor:
    """Values [..., n, n] or, with heads, [..., n, n, H] where the mask [n, n] is true, else 0."""
    return values * (mask if heads is None else mask[..., None])


def _called(variant: Variant) -> str:
    """The name of a variant in a sentence."""
    return "uncorrected views" if variant is Variant.NONE else f"RADE-{variant.value.upper()}"


def _mean_is_inference(aggregator: Aggregator, views: AllViews, case: Case, clean: Tensor) -> None:
    """Holds the mean over all views against inference, and that of RADE-OF against the clean aggregation."""
    features, distribution = one_hot(case.graph, aggregator.heads), views.distribution
    target = Adjacency(case.graph, distribution).aggregate(aggregator.alone(case.graph), features)
    mean = views.mean(views.aggregate(aggregator.on(case.graph), features))
    what = _called(distribution.variant) + (" under noise" if distribution.noisy else "")
    expect(mean, target, aggregator.tolerance, f"mean over all views of {what}", case)
    if distribution.variant is Variant.OF:
        allowed = SUMMING if distribution.noisy else 0.0
        expect(target, clean, allowed, f"inference of {what} against the clean graph", case)


def _pair_by_pair(views: AllViews, coefficients: Coefficients, build: Build, heads: int | None) -> Tensor:
    """Eq. 6, 8 and 10 pair by pair on every view, [K, n, n, ...]: what the sums must add up to."""
    graph, distribution = views.graph, views.distribution
    alpha, loop = views.coefficients(build)
    eye = torch.eye(graph.num_nodes, dtype=torch.double)
    if distribution.variant is Variant.NONE:
        return alpha + torch.einsum("ki...,ij->kij...", loop, eye)
    found, added = factors(coefficients, distribution), _only(nonedges(graph), alpha, heads)
    total = alpha * on_edges(graph, found.edges) + added + torch.einsum("ki...,ij->kij...", loop * found.loop, eye)
    if distribution.variant is Variant.OFS:
        return total
    mean = _only(nonedges(graph), on_pairs(graph, coefficients.mean(distribution), heads), heads)
    norm = mean.sum(1, keepdim=True)
    return total - added.sum(2, keepdim=True) * (mean / torch.where(norm > 0, norm, 1.0))


def _single_heads(aggregator: Aggregator) -> Iterator[tuple[Case, AllViews, LogitMessages, Tensor, Tensor]]:
    """Every small graph, variant and head: all views, what is sent, the head's own α' and m̃ [n, n, C].

    Where both rates can move, edges send messages of their own as well.
    """
    for case, variant in product(SMALL, Variant):
        graph, views, coefficients = case.graph, case.views(variant), aggregator.alone(case.graph)
        alphas, nodes = views.coefficients(aggregator.on(graph))[0], aggregator.messages(graph)
        edges = normal(graph.pattern.size, *nodes.shape[1:], seed=8)
        for head in range(aggregator.heads or 1):
            if aggregator.heads is None:
                (alpha, clean), sent, own = (alphas, coefficients.clean().edges), Messages(nodes, edges), (nodes, edges)
            else:  # nothing from other heads
                alpha, clean = alphas[..., head], coefficients.clean().edges[:, head]
                others = (torch.arange(aggregator.heads) != head)[:, None]
                sent = Messages(nodes.masked_fill(others, 0.0), edges.masked_fill(others, 0.0))
                own = nodes[:, head], edges[:, head]
            corrected = views.corrected_messages(clean, alpha, own[0])
            yield case, views, LogitMessages(coefficients, sent.nodes), alpha, corrected
            if case in INSIDE:
                along = views.corrected_messages(clean, alpha, torch.ones_like(own[0])) * on_edges(graph, own[1])
                corrected = torch.where(adjacency(graph)[..., None], along, corrected)
                yield case, views, LogitMessages(coefficients, sent), alpha, corrected


def _results(coefficients: Coefficients, view: View, x: Tensor) -> dict[str, Tensor]:
    """What a pass and the rate step compute, [n, ...] each."""
    graph, distribution = view.graph, view.distribution
    found = variance(LogitMessages(coefficients, x), distribution)
    return {
        "the clean aggregation": Adjacency(graph).aggregate(coefficients, x),
        "the aggregation over a view": Adjacency(graph, distribution, view).aggregate(coefficients, x),
        "inference": Adjacency(graph, distribution).aggregate(coefficients, x),
        "variance from dropping, and in all": torch.stack([found.drop, found.total], -1),
    }


def _drawn(distribution: Distribution) -> View:
    """One view, the same on every call."""
    return draw(distribution, torch.Generator().manual_seed(4))


def _of_rates(aggregator: Aggregator, case: Case, variant: Variant) -> Callable[[Tensor, Tensor], Tensor]:
    """All moments and the variance of the logits, in one row, as a function of p and q."""
    coefficients, x = aggregator.alone(case.graph), aggregator.messages(case.graph)

    def values(p: Tensor, q: Tensor) -> Tensor:
        distribution = case.distribution(variant).at(Rates(p, q))
        found = [variance(LogitMessages(coefficients, x), distribution).total]
        for moments in (f(distribution) for f in (coefficients.mean, coefficients.variance, coefficients.covariance)):
            found += [moments.edges, moments.loop, moments.nonedges.apply(x)]
        return torch.cat([value.flatten() for value in found])

    return values


def _all_weights(coefficients: Coefficients, view: View) -> list[Tensor]:
    clean, seen, mean = coefficients.clean(), coefficients.on(view), coefficients.mean(view.distribution)
    return [clean.edges, clean.loop, seen.edges, seen.loop, seen.added, mean.edges, mean.loop]
