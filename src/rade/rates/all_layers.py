"""Variance of the logits from all layers, all correlations and all activations, by backward passes with random signs.

A pass on the mean over views gives g = ∂s/∂a at every aggregation for a linear form s = ⟨ξ, logits⟩; a training pass
gives the messages m. The answer of s to one pair (`Coefficients.response`), squared and summed over pairs and layers,
is Var(s): by the law of total variance exact across layers for linear networks with a view for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rade.correction import factors
from rade.distribution import Distribution
from rade.graph.sparse import Pattern
from rade.moments.base import Slopes
from rade.nn.trace import Aggregated
from rade.sums import Messages, along_edges, to_anybody
from rade.views import View


def variance_of_all_layers(
    logits: Tensor,
    mean: Sequence[Aggregated],
    training: Sequence[Aggregated],
    distribution: Distribution,
    form: Tensor,
) -> tuple[Tensor, Tensor]:
    """Var(⟨ξ, logits⟩) by drops and by additions; with ξ = ±√w it is Σ w Var(δ) on average.

    Args:
        logits: [k, C] of some rows, on the mean over views, with their graph of derivatives.
        mean, training: the aggregations of that pass and of one in training, in the same order.
        distribution: of the views.
        form: ξ, [k, C].
    """
    if len(mean) != len(training):
        raise ValueError(
            f"the training pass aggregated {len(training)} times and the mean pass {len(mean)} times; the variance of "
            "all layers needs a model that does the same in both"
        )
    outputs = [call.output for call in mean]
    found = torch.autograd.grad(logits, outputs, form, retain_graph=True, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        answers = [_answer(call, g) for call, g in zip(training, found)]
    if distribution.views.shared:  # one view: answers of all layers meet before they are squared
        answers = [(sum(e for e, _ in answers), sum(a for _, a in answers))]  # type: ignore[list-item]
    p, q = distribution.rates.p, distribution.rates.q
    drop = sum(edges.square().sum() for edges, _ in answers)
    add = sum(added.square().sum() for _, added in answers)
    return p * (1.0 - p) * torch.as_tensor(drop), (1.0 - q) * torch.as_tensor(add)


def _answer(call: Aggregated, g: Tensor) -> tuple[Tensor, Tensor]:
    """The response to a pair, of one aggregation: on edges [m], and on the additions of its view, each counted once."""
    view, graph = call.adjacency.view, call.adjacency.graph
    assert view is not None
    by_head = call.coefficients.response(view, _slopes(view, call, g))
    edges, added = (part.unsqueeze(-1).flatten(1).sum(1) for part in by_head)
    edges = edges + graph.reverse(edges, graph.pattern)
    added = added + graph.reverse(added, view.added)
    return edges[graph.entries], added[graph.one_per_pair(view.added)]


def _slopes(view: View, call: Aggregated, g: Tensor) -> Slopes:
    """⟨g_i, m_j⟩ on edges and loops with their factors, on additions and non-edges relative to μ_i."""
    distribution, messages = view.distribution, call.messages.detach()
    m, found = to_anybody(messages), factors(call.coefficients, distribution)
    nonedges = found.mean.nonedges
    centre = torch.zeros_like(m[..., 0])  # ⟨g_i, μ_i⟩
    received = _inner(g, nonedges.apply(m))
    if distribution.variant.centres:
        centre = received / found.divisor
        received = torch.zeros_like(received)  # centred: nothing on average

    def reverse() -> Tensor:
        away = nonedges.transposed(centre[..., None]).squeeze(-1)
        return _inner(m, nonedges.transposed(g)) - away

    return Slopes(
        found.edges * _received(g, messages, view.graph.pattern),
        found.loop * _inner(g, m),
        _received(g, m, view.added) - centre[view.added.target],
        received,
        reverse,
    )


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _received(g: Tensor, messages: Tensor | Messages, pattern: Pattern) -> Tensor:
    """⟨g_target, message⟩ at the entries of a pattern, [E] or [E, H]."""
    return _inner(g.index_select(0, pattern.target), along_edges(messages, pattern))
