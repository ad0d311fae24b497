"""What must hold of the variance of logits: it is that of all views, at nodes and after pooling."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rade.control.pooled import pooled_variance
from rade.control.variance import variance
from rade.correction import propagate
from rade.graph.graph import Graph
from rade.graph.messages import Messages
from rade.moments.base import Sent
from rade.testing.aggregators import Aggregator, normal
from rade.testing.cases import INSIDE, SMALL, Case, expect
from rade.testing.expectations import called, on_edges, only
from rade.testing.oracle import AllViews, adjacency, nonedges
from rade.view.law import Variant
from rade.view.view import MeanView

ROUNDING = 1e-12  # of sums that are equal but for their order


def variance_is_that_of_all_views(aggregator: Aggregator) -> None:
    """Var(δ_i) = Σ_j m̃_ij² Var(α'_ij) with enumerated moments, head by head, under every variant (Prop. 3)."""
    for case, views, sent, (own, m, head) in _single_heads(aggregator):
        corrected = corrected_messages(views, _head(sent.coefficients.clean().edges, head), own, m)
        moments = views.variance(own), views.mean(own.square())
        expected, scale = (torch.einsum("ij,ijc->ic", moment, corrected.square()) for moment in moments)
        found = variance(sent, views.law)
        what = f"variance of logits of {called(views.law.variant)}"
        expect(found.total, expected, aggregator.tolerance, what, case, scale)
        if not bool((torch.minimum(found.drop, found.add) >= -ROUNDING * scale.max()).all()):
            raise AssertionError(f"{what}, {case}: a part of the variance is negative")


def pooled_variance_lets_both_ends_meet(aggregator: Aggregator) -> None:
    """Σ_{i<j} Var(α'_ij m̃_ij + α'_ji m̃_ji), enumerated; the paper's rule is the sum of node variances."""
    for case, views, sent, single in _single_heads(aggregator):
        _pooled(aggregator, case, views, sent, single)


def _single_heads(aggregator: Aggregator) -> Iterator[tuple[Case, AllViews, Sent, tuple[Tensor, Tensor, int | None]]]:
    """Every small graph, variant and head: all views, what is sent, and the head's own α', messages and number."""
    for case in SMALL:
        alpha, _ = case.views().coefficients(aggregator.on(case.graph))
        for variant in Variant:
            views, coefficients = case.views(variant), aggregator.alone(case.graph)
            for head in _heads(aggregator):
                m, messages = _one_head(aggregator, case, head)
                yield case, views, Sent(coefficients, messages), (_head(alpha, head), m, head)


def edges_may_send_messages_of_their_own(aggregator: Aggregator) -> None:
    """Sums of messages [E, F] of edges beside those of nodes: their mean is inference, their variance all views'."""
    for case in INSIDE:
        graph, heads = case.graph, () if aggregator.heads is None else (aggregator.heads,)
        nodes = aggregator.messages(graph)
        edges = normal(graph.pattern.size, *heads, nodes.shape[-1], seed=8)
        messages = Messages(nodes, edges, aggregator.messages(graph, seed=9))
        for variant in Variant:
            views, coefficients = case.views(variant), aggregator.alone(graph)
            copied = messages.each(views.repeat)
            there = aggregator.on(graph)(views.copies, views.carry, torch.double)
            seen = propagate(views.view, there, copied).view(views.count, *nodes.shape)
            what = f"messages of edges under {called(variant)}"
            if variant.corrects:
                target = propagate(MeanView(views.law), coefficients, messages)
                expect(views.mean(seen), target, aggregator.tolerance, f"mean over all views of {what}", case)
            if aggregator.heads is None:
                _edge_messages(aggregator, views, messages, case)


def _edge_messages(aggregator: Aggregator, views: AllViews, messages: Messages, case: Case) -> None:
    """Σ_j m̃_ij² Var(α'_ij) with messages of edges, at nodes and pooled."""
    graph, coefficients = case.graph, aggregator.alone(case.graph)
    alpha, _ = views.coefficients(aggregator.on(graph))
    clean = on_edges(graph, messages.edges)
    corrected = corrected_messages(views, coefficients.clean().edges, alpha, messages.nodes)
    factor = corrected_messages(views, coefficients.clean().edges, alpha, torch.ones_like(messages.nodes))
    corrected = torch.where(adjacency(graph)[..., None], factor * clean, corrected)
    out, sent = alpha[..., None] * corrected, Sent(coefficients, messages)
    found, scale = variance(sent, views.law).total, views.mean(out.square()).sum(1)
    what = f"variance with messages of edges of {called(views.law.variant)}"
    expect(found, views.variance(out).sum(1), aggregator.tolerance, what, case, scale)
    pooled = pooled_variance(sent, views.law, mean=False, exact=True).total
    together, apart = views.variance(out + out.transpose(1, 2)), views.variance(out)
    pairs = torch.where(_meets(aggregator, graph)[..., None], 0.5 * together, apart)
    expect(pooled, graph.pool(pairs.sum(1)), aggregator.tolerance, f"pooled {what}", case, 2.0 * graph.pool(scale))


def _pooled(
    aggregator: Aggregator, case: Case, views: AllViews, sent: Sent, of_head: tuple[Tensor, Tensor, int | None]
) -> None:
    graph, (alpha, m, head) = case.graph, of_head
    what = f"pooled variance of {called(views.law.variant)}"
    clean = _head(sent.coefficients.clean().edges, head)
    out = alpha[..., None] * corrected_messages(views, clean, alpha, m)  # [K, n, n, C]
    together, apart = views.variance(out + out.transpose(1, 2)), views.variance(out)
    pairs = torch.where(_meets(aggregator, graph)[..., None], 0.5 * together, apart)  # of ordered pairs
    square = views.mean(out.square()).sum(1)
    found = pooled_variance(sent, views.law, mean=False, exact=True).total
    expect(found, graph.pool(pairs.sum(1)), aggregator.tolerance, what, case, 2.0 * graph.pool(square))
    averaged = pooled_variance(sent, views.law, mean=True, exact=True).total
    expect(averaged, found / graph.sizes[:, None].square(), ROUNDING, f"{what}, mean pooling", case)
    paper = pooled_variance(sent, views.law, mean=False, exact=False).total
    expect(paper, graph.pool(variance(sent, views.law).total), ROUNDING, f"{what}, the paper's rule", case)


def corrected_messages(views: AllViews, clean: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
    """m̃_ijc with *enumerated* E[α'], [n, n, C]: α/E m_j on edges, m_j − μ_i on non-edges (Prop. 3).

    ``clean`` [E] and ``alpha`` [K, n, n] are coefficients of one head, ``m`` [n, C] its messages.
    """
    graph, mean = views.graph, views.mean(alpha)
    edge, other = adjacency(graph), nonedges(graph)
    factor, centre = edge.double(), torch.zeros_like(m)
    if views.law.variant.corrects:
        factor = on_edges(graph, clean) / torch.where(edge, mean, 1.0)
    if views.law.variant.centres:
        weight = only(other, mean, None)
        total = weight.sum(1, keepdim=True)
        centre = (weight @ m) / torch.where(total > 0, total, 1.0)
    return factor[..., None] * m + other[..., None] * (m - centre[:, None])


def _meets(aggregator: Aggregator, graph: Graph) -> Tensor:
    """At which pairs pooling lets both directions meet, [n, n]; elsewhere each counts by itself.

    Not at non-edges of an aggregator that cannot tell how they covary, nor at those of a directed graph, where only
    aggregators that share a normalisation could show a difference.
    """
    if graph.directed:
        return torch.full_like(adjacency(graph), not aggregator.shares)
    return torch.ones_like(adjacency(graph)) if aggregator.meets else adjacency(graph)


def _heads(aggregator: Aggregator) -> list[int | None]:
    return [None] if aggregator.heads is None else list(range(aggregator.heads))


def _one_head(aggregator: Aggregator, case: Case, head: int | None) -> tuple[Tensor, Tensor]:
    """Messages [n, C] of one head, and the same as the aggregator takes them, with nothing from other heads."""
    messages = aggregator.messages(case.graph)
    if head is None:
        return messages, messages
    alone = torch.zeros_like(messages)
    alone[:, head] = messages[:, head]
    return messages[:, head], alone


def _head(values: Tensor, head: int | None) -> Tensor:
    """The values of one head, where there are heads."""
    return values if head is None else values[..., head]
