"""RADE-OF and RADE-OFS, once for every aggregator: correction factors, and the sums of training and of inference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.moments.base import Coefficients, Moments, Weights, once
from rade.moments.denoise import Observed
from rade.sums import Messages, Sums
from rade.views import View


@dataclass(frozen=True, eq=False)
class Factors:
    """All that corrects an aggregator under a distribution, whatever view is drawn from it."""

    graph: Graph
    mean: Moments  # E[α']
    edges: Tensor  # factor α/E[α'] on edges, at most the cap; 1 without correction
    loop: Tensor  # the same on loops

    @cached_property
    def total(self) -> Tensor:
        """Z_i = Σ_{j∉N(i)} E[α'_ij], [n] or [n, H]; 0 where there is no non-neighbor (Eq. 9)."""
        ones = self.mean.edges.new_ones(self.graph.num_nodes, *self.mean.edges.shape[1:], 1)
        total = self.mean.nonedges.apply(ones).squeeze(-1)
        # All pairs − loops − edges leaves rounding error where nothing is left.
        return total.masked_fill((self.graph.nonneighbors == 0).view(-1, *[1] * (total.dim() - 1)), 0.0)

    @cached_property
    def divisor(self) -> Tensor:
        """Z_i, infinite where it vanishes. Divide by it: the square of 1/Z_i, in a gradient, overflows sooner."""
        return self.total.masked_fill(self.total == 0, torch.inf)


@once
def factors(coefficients: Coefficients, distribution: Distribution) -> Factors:
    """Factors α/E[α'] (Eq. 8) of an aggregator; computed once, for all layers where they agree."""
    graph, mean = distribution.graph, coefficients.expected(distribution)
    if not distribution.variant.corrects:
        return Factors(graph, mean, torch.ones_like(mean.edges), torch.ones_like(mean.loop))
    edges, loop = coefficients.ratio(distribution)
    cap = coefficients.cap(distribution)
    if cap != math.inf:
        edges, loop = edges.clamp(max=cap), loop.clamp(max=cap)
    return Factors(graph, mean, edges, loop)


def clean_sums(coefficients: Coefficients) -> Sums:
    """Σ_j α_ij m_j + α_ii m_i (Eq. 3)."""
    weights = coefficients.realised(coefficients.clean())
    return Sums(coefficients.graph, weights.edges, weights.loop)


def training_sums(coefficients: Coefficients, view: View) -> Sums:
    """The aggregation of training on a view: Eq. 8–9 (RADE-OF), Eq. 10 (RADE-OFS), or uncorrected."""
    distribution, variant = view.distribution, view.distribution.variant
    weights = coefficients.realised(coefficients.on(view))
    if variant.corrects:
        found = factors(coefficients, distribution)
        weights = Weights(weights.edges * found.edges, weights.loop * found.loop, weights.added)
    sums = Sums(distribution.graph, weights.edges, weights.loop, ((view.added, weights.added),))
    if distribution.noisy:
        sums = sums + _denoising(coefficients, distribution)
    if not variant.centres or view.added.size == 0:
        return sums
    # Centering: μ_i = (Σ_nonedges E[α'] m_j) / Z_i, once for each unit of added weight at i.
    added = view.added.row_sum(weights.added)
    return sums.plus(-added / found.divisor, found.mean.nonedges)


def inference_sums(coefficients: Coefficients, distribution: Distribution) -> Sums:
    """The mean over views: the clean aggregation, and for RADE-OFS Σ_nonedges E[α'] m_j as well (Eq. 11)."""
    if distribution.noisy and distribution.views.sampling != "expected":
        found = _denoised(coefficients, distribution)
    else:  # also in training, where attention's dropout is part of the clean aggregation
        found = clean_sums(coefficients)
        found = found + _denoising(coefficients, distribution) if distribution.noisy else found
    return found + coefficients.expected(distribution).nonedges if distribution.variant.keeps_additions else found


@once
def _denoised(coefficients: Coefficients, distribution: Distribution) -> Sums:
    """An estimate of the aggregation on the graph without noise."""
    return coefficients.denoised(Observed.of(distribution))


@once
def _denoising(coefficients: Coefficients, distribution: Distribution) -> Sums:
    """What turns the aggregation on a noisy graph into that estimate."""
    clean = coefficients.clean()
    return _denoised(coefficients, distribution) + Sums(distribution.graph, -clean.edges, -clean.loop)


@dataclass(frozen=True, eq=False)
class Adjacency:
    """What one convolution aggregates over: a clean graph, the mean over its views, or one of them.

    Attributes:
        graph: the clean graph.
        distribution: of its views; None: the clean graph itself.
        view: one of them; None: the mean over all.
        targets: [k] the nodes that sums are wanted for, all if None.
        sources: [m] the nodes whose features come, all if None.
    """

    graph: Graph
    distribution: Distribution | None = None
    view: View | None = None
    targets: Tensor | None = None
    sources: Tensor | None = None
    linear: ClassVar[bool] = True  # whether linear maps and sums may change places

    def own(self, x: Tensor) -> Tensor:
        """Rows of the nodes that sums are wanted for, of values [n, ...] of all."""
        return x if self.targets is None else x.index_select(0, self.targets)

    def aggregate(
        self, coefficients: Coefficients, messages: Tensor | Messages, own: Tensor | None = None
    ) -> Tensor:
        """Σ_j over it of messages [n, F] or [n, H, F], or of `Messages` of edges; ``own`` [1] times a node's own."""
        if isinstance(messages, Messages) and self.distribution is not None and self.distribution.noisy:
            raise ValueError(
                "noise cannot be undone for messages of single edges (edge_attr); leave out edge_attr or noise"
            )
        sums = self.sums(coefficients)
        if own is not None:
            sums = sums + Sums(self.graph, loop=own.expand(self.graph.num_nodes))
        return sums.apply(messages) if self.targets is None else sums.at(self.targets, self.sources).apply(messages)

    def sums(self, coefficients: Coefficients) -> Sums:
        """How messages are summed; layers whose coefficients have equal keys share it."""
        key, view, distribution = coefficients.key, self.view, self.distribution
        owner: View | Distribution | Graph = view or distribution or self.graph
        place = ("sums", type(coefficients), key)
        found: Sums | None = None if key is None else owner.cache.get(place)
        if found is None:
            if view is not None:
                found = training_sums(coefficients, view)
            else:
                found = clean_sums(coefficients) if distribution is None else inference_sums(coefficients, distribution)
            if key is not None:
                owner.cache[place] = found
        return found
