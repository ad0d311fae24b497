"""Moments of any aggregator by averaging its own coefficients over sampled views."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rade.graph.operator import Operator, Sparse
from rade.graph.sparse import Pattern, row_pointer
from rade.moments.base import Coefficients, Moments
from rade.view.law import Law
from rade.view.rates import number
from rade.view.sampling import sample
from rade.view.view import View


@dataclass(frozen=True, eq=False)
class SampledMoments:
    """First and second moments from ``samples`` views: edges and loops by averages, non-edges by the pairs seen."""

    mean: Moments
    second: Moments


def sampled_moments(coefficients: Coefficients, law: Law) -> SampledMoments:
    """Average α' and α'² over views. A pair that was added k times stands for its share k/samples of all additions.

    Costs one evaluation of the coefficients per view: for comparison, and for aggregators without moments of their own.
    """
    views = law.drawn.once("views", law.graph.device, lambda source: _views(replace(law, generator=source)))
    seen = [coefficients.on(view) for view in views]
    target = torch.cat([view.added.target for view in views])
    source = torch.cat([view.added.source for view in views])
    nodes = coefficients.graph.num_nodes
    pairs, at = torch.unique(target * nodes + source, return_inverse=True)
    pattern = Pattern.general(row_pointer(pairs // nodes, nodes), pairs % nodes, nodes)
    added = torch.cat([weights.added for weights in seen])

    def average(power: int) -> Moments:
        edges = _mean([weights.edges.pow(power) for weights in seen])
        loop = _mean([weights.loop.pow(power) for weights in seen])
        values = added.new_zeros(pattern.size, *added.shape[1:]).index_add(0, at, added.pow(power)) / len(seen)
        return Moments(edges, loop, Operator((Sparse(pattern, values),)))

    return SampledMoments(average(1), average(2))


def sampled_variance(coefficients: Coefficients, law: Law, moments: SampledMoments) -> Moments:
    """E[α'²] − E[α']²; on non-edges (1−q) E[α'²], since a single pair is seen too rarely to know its own mean."""
    edges = (moments.second.edges - moments.mean.edges.square()).clamp(min=0)
    rows = torch.full_like(moments.mean.loop, 1.0 - number(law.rates.q))
    return Moments(edges, coefficients.no_loop(), moments.second.nonedges.scaled(rows))


def _views(law: Law) -> list[View]:
    return [sample(law) for _ in range(law.correction.samples)]


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(0)
