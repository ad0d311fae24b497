"""Variance of the logits from all layers, all correlations and all activations, by backward passes with random signs.

A pass on the mean over views gives g = ∂s/∂a at every aggregation for a linear form s = ⟨ξ, logits⟩; a training pass
gives the messages m. The answer of s to one pair (`Coefficients.response`), squared and summed over pairs and layers,
is Var(s): by the law of total variance exact across layers for linear networks with a view for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rade.control.recording import Recorded
from rade.correction import terms
from rade.graph.messages import Messages, to_anybody, to_itself
from rade.graph.sparse import Pattern, at_entries
from rade.moments.base import Pulls
from rade.view.law import Law
from rade.view.view import View


@dataclass(frozen=True, eq=False)
class AllLayers:
    """A pass on the mean over views and one in training, with what each of their aggregations did.

    Attributes:
        logits: [k, C] of the labelled rows, on the mean over views, with their graph of derivatives.
        mean, training: the recorded aggregations of both passes, in the same order.
    """

    logits: Tensor
    mean: Sequence[Recorded]
    training: Sequence[Recorded]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.training):
            raise ValueError(
                f"the training pass aggregated {len(self.training)} times and the mean pass {len(self.mean)} times; "
                "the variance of all layers needs a model that does the same in both"
            )

    def variance(self, law: Law, form: Tensor) -> tuple[Tensor, Tensor]:
        """Var(⟨ξ, logits⟩) by drops and by additions, for a form ξ [k, C]; with ξ = ±√w it is Σ w Var(δ) on average."""
        outputs = [call.output for call in self.mean]
        gradients = torch.autograd.grad(
            self.logits, outputs, form, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        with torch.no_grad():
            answers = [_answer(call, g) for call, g in zip(self.training, gradients)]
        if law.views.shared:  # one view: answers of all layers meet before they are squared
            answers = [(sum(e for e, _ in answers), sum(a for _, a in answers))]  # type: ignore[list-item]
        p, q = law.rates.p, law.rates.q
        drop = sum(edges.square().sum() for edges, _ in answers)
        add = sum(added.square().sum() for _, added in answers)
        return p * (1.0 - p) * torch.as_tensor(drop), (1.0 - q) * torch.as_tensor(add)


def _answer(call: Recorded, g: Tensor) -> tuple[Tensor, Tensor]:
    """b of one aggregation: on edges [m], and on the additions of its view, each counted once."""
    view = call.adjacency
    assert isinstance(view, View)
    edges, added = (_over_heads(part) for part in call.coefficients.response(view, _pulls(view, call, g)))
    directions, pattern = view.graph.directions, view.graph.pattern
    both = added + directions.reversed(added, view.added)
    edges = edges + directions.reversed(edges, pattern)
    return edges[view.graph.entries], both[directions.entries(view.added)]


def _pulls(view: View, call: Recorded, g: Tensor) -> Pulls:
    """⟨g_i, m_j⟩ on edges and loops with their factors, on additions and non-edges relative to μ_i."""
    law, messages = view.law, call.messages.detach()
    m = to_anybody(messages)
    of = terms(call.coefficients, law)
    heads = of.edges.dim() == 2
    nonedges = of.mean.nonedges
    centre = torch.zeros_like(m[..., 0])  # ⟨g_i, μ_i⟩
    received = _inner(g, nonedges.apply(m))
    if law.variant.centres:
        centre = received / torch.where(of.total != 0, of.total, 1.0)
        received = torch.zeros_like(received)  # centred: nothing on average

    def reverse() -> Tensor:
        away = nonedges.transposed(centre[..., None]).squeeze(-1)
        return _inner(m, nonedges.transposed(g)) - away

    return Pulls(
        of.edges * _on_edges(g, messages, view.graph.pattern, heads),
        of.loop * _inner(g, to_itself(messages)),
        _pairs(g, m, view.added, heads) - centre[view.added.target],
        received,
        reverse,
    )


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _on_edges(g: Tensor, messages: Tensor | Messages, pattern: Pattern, heads: bool) -> Tensor:
    """⟨g_target, message⟩ on the clean edges, [E] or [E, H]."""
    if isinstance(messages, Messages):
        return _inner(g.index_select(0, pattern.target), messages.edges)
    return _pairs(g, messages, pattern, heads)


def _pairs(g: Tensor, m: Tensor, pattern: Pattern, heads: bool) -> Tensor:
    """⟨g_target, m_source⟩ at the entries of a pattern, [E] or [E, H]."""
    if not heads:
        return at_entries(g, m, pattern)
    parts = [at_entries(a, b, pattern) for a, b in zip(g.unbind(1), m.unbind(1))]
    return torch.stack(parts, 1)


def _over_heads(values: Tensor) -> Tensor:
    return values.sum(1) if values.dim() == 2 else values
