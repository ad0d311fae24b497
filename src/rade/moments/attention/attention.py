"""Attention (GAT): α_ij = A_ij w_ij / (c_i + Σ_k A_ik w_ik), w_ij = exp(LeakyReLU(s_j + t_i))."""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import dropout

from rade.distribution import Distribution
from rade.graph.graph import Graph
from rade.moments.attention.delta import ExpandedDenominator, all_others
from rade.moments.attention.exact import Denominator, DenominatorByPairs, costs, lattice_for
from rade.moments.attention.exact_grid import DenominatorByList, DenominatorOfAll
from rade.moments.attention.scores import NOTHING, Attributes, Scores
from rade.moments.base import Coefficients, Moments, Slopes, Weights, once
from rade.moments.denoise import Observed
from rade.sums import Sums
from rade.views import View

RAREST = 2.0**-100  # least E[α']/α: what never arrives (q = 1 and far heavier non-neighbors) has no larger factor
FAINTEST = 1e-36  # coefficients below it are lost in any sum, and to single precision: their factor is 1


class Attention(Coefficients):
    """Multi-head attention with scores s (sources) and t (targets), [n, H], and of edges (Appendix C.III, E.III).

    ``moments="exact"`` is the exact distribution of the random denominator to the tolerance of `Correction`, at any
    scores; ``"delta"`` the paper's second-order expansion.
    """

    def __init__(
        self,
        graph: Graph,
        s: Tensor,
        t: Tensor,
        slope: float = 0.2,
        self_loops: bool = False,
        drop: float = 0.0,
        extra: Attributes = NOTHING,
    ) -> None:
        super().__init__(graph, s.dtype)
        self.scores, self.drop = Scores(graph, s, t, slope, self_loops, extra), drop

    def clean(self) -> Weights:
        """Softmax over neighbors (and the node itself with ``self_loops``)."""
        edges, loop = self._clean
        return self._weights(edges, loop, edges[:0])

    def on(self, view: View) -> Weights:
        """Softmax over the view."""
        scores, target = self.scores, self.graph.pattern.target
        edges = torch.where(view.kept[:, None], scores.edge, -torch.inf)
        added = scores.at(view.added.target, view.added.source)
        top = scores.heard(edges, added, view.added).detach()
        edges, added = torch.exp(edges - top[target]), torch.exp(added - top[view.added.target])
        own = torch.exp(scores.own - top)
        total = own + self.graph.pattern.row_sum(edges) + view.added.row_sum(added)
        inverse = 1.0 / _positive(total)
        return self._weights(edges * inverse[target], own * inverse, added * inverse[view.added.target])

    def realised(self, weights: Weights) -> Weights:
        """Attention dropout, as in PyG: on what multiplies the messages, not on what is corrected for."""
        if self.drop == 0.0:
            return weights
        edges, loop, added = (dropout(w, self.drop) for w in (weights.edges, weights.loop, weights.added))
        return Weights(edges, loop, added)

    def mean(self, distribution: Distribution) -> Moments:
        """E[α'] = π w E[1/X], X without the pair's own part."""
        found = self._denominator(distribution)
        edges, loop = (1.0 - distribution.rates.p) * self._edge_mean(distribution), found.loop_mean()
        return Moments(edges.to(self.dtype), loop.to(self.dtype), found.nonedge_mean(self.dtype))

    def variance(self, distribution: Distribution) -> Moments:
        """E[α'²] − E[α']²."""
        found = self._denominator(distribution)
        return Moments(found.edge_variance().to(self.dtype), self.no_loop(), found.nonedge_variance(self.dtype))

    def ratio(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """α/E[α'], in double precision."""
        edges, loop = self._clean
        edges = _quotient(edges, self._edge_mean(distribution)) / (1.0 - distribution.rates.p)
        return edges.to(self.dtype), _quotient(loop, self._denominator(distribution).loop_mean()).to(self.dtype)

    def response(self, view: View, slopes: Slopes) -> tuple[Tensor, Tensor]:
        """A pair's own message, and the part α' of the target's other messages that it takes."""
        distribution, target = view.distribution, self.graph.pattern.target
        edges, _ = super().response(view, slopes)
        mean = self.expected(distribution)
        sent = mean.edges * slopes.edges
        total = self.graph.pattern.row_sum(sent) + mean.loop * slopes.loop + slopes.nonedges
        edges = edges - self.present(distribution, 1) * (total[target] - sent)
        return edges, self.on(view).added * (slopes.added - total[view.added.target])

    def denoised(self, observed: Observed) -> Sums:
        """Numerator and denominator without spurious edges in the mean."""
        return _denoised(self.scores, observed, self.dtype)

    def cap(self, distribution: Distribution) -> float | Tensor:
        """3/(1−p) for the expansion: above every legitimate factor of a node of degree one, below its excesses."""
        correction = distribution.correction
        return correction.limit(math.inf if correction.moments == "exact" else 3.0 / (1.0 - distribution.rates.p))

    def no_loop(self) -> Tensor:
        """[n, H] zeros."""
        return torch.zeros_like(self.scores.loop, dtype=self.dtype)

    @cached_property
    def _clean(self) -> tuple[Tensor, Tensor]:
        """α of edges [E, H] and loops [n, H] in double precision."""
        scores, pattern = self.scores, self.graph.pattern
        edges, own = torch.exp(scores.edge - scores.largest[pattern.target]), torch.exp(scores.own - scores.largest)
        inverse = 1.0 / _positive(own + pattern.row_sum(edges))
        return edges * inverse[pattern.target], own * inverse

    def _weights(self, edges: Tensor, loop: Tensor, added: Tensor) -> Weights:
        return Weights(edges.to(self.dtype), loop.to(self.dtype), added.to(self.dtype))

    @once
    def _denominator(self, distribution: Distribution) -> Denominator:
        scores, rates = self.scores, distribution.rates
        if not bool(torch.isfinite(scores.heaviest()).all()):
            raise ValueError("attention scores must be finite; features, parameters or both hold NaN or infinity")
        if distribution.correction.moments == "delta":
            return ExpandedDenominator(scores, rates)
        lattice = lattice_for(distribution.correction.tolerance)
        single = self.dtype == torch.float32 and distribution.correction.tolerance >= 1e-3
        dtype = torch.float32 if single else torch.double
        by_pairs, by_list, of_all = costs(scores, lattice, dtype)
        if by_pairs <= min(by_list, of_all):
            return DenominatorByPairs(scores, rates, lattice)
        return (DenominatorByList if by_list <= of_all else DenominatorOfAll)(scores, rates, lattice, dtype)

    @once
    def _edge_mean(self, distribution: Distribution) -> Tensor:
        return self._denominator(distribution).on_edges(1)


def _positive(total: Tensor) -> Tensor:
    """A node that receives nothing has no coefficient: divide its zeros by one."""
    return torch.where(total > 0, total, 1.0)


def _quotient(clean: Tensor, mean: Tensor) -> Tensor:
    """α/E[α'], finite in value and derivative at any scores; 0 where there is no coefficient."""
    mean = torch.maximum(mean, RAREST * clean)
    heard = mean > FAINTEST
    return torch.where(heard, clean / torch.where(heard, mean, 1.0), (clean > 0).to(clean))


def _denoised(scores: Scores, observed: Observed, dtype: torch.dtype) -> Sums:
    """(own + Σ_j signed_ij w_ij x_j) / (own + Σ_j signed_ij w_ij), with pairs as in `signed_pairs`.

    What is taken off a target is scaled twice: to the number of spurious edges that its degree lets expect, and to at
    most their share of its observed weight. So the denominator never vanishes, and coefficients add up to one: spurious
    edges that would outweigh the observed ones cannot all have been there. Where spurious edges prefer some nodes
    (`Trust.ends`) the target's number of them knows it; which sources they come from is left out.
    """
    pattern, shift = scores.graph.pattern, scores.heaviest()
    edge, own = torch.exp(scores.edge - shift[pattern.target]), torch.exp(scores.own - shift)
    trusted = observed.trust.weights(pattern.size, edge.device)[:, None] * edge
    seen, others = pattern.row_sum(trusted), all_others(scores)
    everybody = pattern.row_sum(edge) + others.total(1)  # but the node itself
    off = _taken(observed, seen, everybody)
    total = own + observed.gain * (seen - off * everybody)
    inverse = torch.where(total > 0, 1.0 / torch.where(total > 0, total, 1.0), 0.0)  # nodes that receive nothing
    heard = (observed.gain * trusted * inverse[pattern.target]).to(dtype)
    found = Sums(scores.graph, heard, (own * inverse).to(dtype))
    if observed.leak == 0.0:
        return found
    sums = Sums(scores.graph, edge.to(dtype)) + others.sums(lambda w, *_: w, everybody, everybody, dtype)
    return found + sums.scaled((-observed.gain * off * inverse).to(dtype))


def _taken(observed: Observed, seen: Tensor, everyone: Tensor) -> Tensor:
    """What is taken off every pair of a target, times its weight, [n, H].

    seen, everyone: the weight of a target's edges as trusted, and that of all other nodes.
    """
    others = (observed.graph.per_node(observed.graph.sizes) - 1).clamp(min=1)
    expected = (observed.share * observed.seen / others)[:, None] * torch.ones_like(everyone)
    most = observed.share[:, None] * seen
    return torch.where(expected * everyone > most, most / torch.where(everyone > 0, everyone, 1.0), expected)
