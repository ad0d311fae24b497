"""The interface of an aggregator: coefficients on a graph and on a view, and their means and variances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from rade.distribution import Distribution, Rates
from rade.graph.graph import Graph
from rade.moments.denoise import Observed
from rade.sums import Sums
from rade.views import View

T = TypeVar("T")
C = TypeVar("C", bound="Coefficients")
RateFactors = Callable[[Rates], tuple[Tensor | float, Tensor | float]]


@dataclass(frozen=True, eq=False)
class Weights:
    """Coefficients α on clean edges [E], on loops [n] and on added edges [A]; a head axis may follow.

    Edges are in the order of ``graph.pattern``, added ones in that of ``view.added``.
    """

    edges: Tensor
    loop: Tensor
    added: Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """A moment of α'_ij: on clean edges [E], on loops [n], and on non-edges as sums Σ_{j∉N(i)} moment_ij x_j.

    The sums are an `over_nonedges`, or ``Sums(graph)`` for none at all.
    """

    edges: Tensor
    loop: Tensor
    nonedges: Sums


@dataclass(frozen=True, eq=False)
class Slopes:
    """What one unit of each coefficient adds to a linear form s = Σ_i ⟨g_i, a_i⟩ of an aggregation's output.

    ``edges`` [E] and ``loop`` [n] carry the correction factor, ``added`` [A] the centering; a head axis may follow.
    ``nonedges`` [n] is the mean over the non-edges of each target, ``reverse()`` [n] that of each source on others.
    """

    edges: Tensor
    loop: Tensor
    added: Tensor
    nonedges: Tensor
    reverse: Callable[[], Tensor]


def once(build: Callable[[C, Distribution], T]) -> Callable[[C, Distribution], T]:
    """What follows from coefficients: found once for each distribution, and once for all layers that have a `key`."""

    @wraps(build)
    def found(coefficients: C, distribution: Distribution) -> T:
        place = (type(coefficients), coefficients.key, build)
        cache = coefficients._cache.setdefault(distribution, {}) if place[1] is None else distribution.cache
        if place not in cache:
            cache[place] = build(coefficients, distribution)
        known: T = cache[place]
        return known

    return found


def without_derivatives(value: T) -> T:
    """A copy of an object with its tensors detached, and those of what it is made of; nothing computed is kept."""
    found = copy(value)
    for name, part in list(vars(value).items()):
        if isinstance(getattr(type(value), name, None), cached_property):
            del vars(found)[name]
        elif isinstance(part, Tensor):
            vars(found)[name] = part.detach()
        elif hasattr(part, "detached"):
            vars(found)[name] = part.detached()
    return found


class Coefficients(ABC):
    """A weighted-sum aggregator a_i = Σ_j α_ij m_j on one graph (Def. 1): coefficients, their means and variances.

    A subclass says `clean`, `on`, `mean` and `variance`, as in ``examples/own_aggregator.py``. Loops have weight zero
    unless it says otherwise. What it is written with, all of it in `rade.moments`:

    - ``self.graph.pattern``, the clean edges j → i, both directions of an undirected one: ``target`` i and ``source`` j
      of each, [E], and ``row_sum(values)``, Σ_j at every target, [E] → [n].
    - ``self.graph.degree`` and ``view.degree`` [n], how many messages a node receives. Degrees are integers and
      ``view.kept`` is boolean: ``.to(self.dtype)``, that of the messages, comes before any arithmetic.
    - ``view.kept`` [E] says which edges a view keeps; ``view.added``, a pattern of its own, which non-edges it has [A].
    - ``distribution.rates.p`` and ``.q``, numbers or tensors with derivatives. A pair is present with π = 1−p on edges
      and π = q on non-edges, independently of all others.
    - ``over_nonedges(graph, left, right)``: Σ_{j∉N(i), j≠i} Σ_r left_ir right_jr x_j for factors [n, R]. Non-edges are
      never a list.
    - ``degree_moments(distribution, c, spent, (s, …), dtype)``: a list of E[X^−s], [n] each, by the moments that
      `rade.Correction` asks for, exact ones unless told otherwise. X is the number c plus the random rest of the
      degree on a view. ``spent`` is what c has counted of the degree already: `EDGE` or `NONEDGE`, one such pair at
      the node, which is present (hence a 1 in c), or `LOOP`, nothing. 1/√(1 + d) of a target, given that an edge is
      there: ``degree_moments(distribution, 2.0, EDGE, (0.5,), self.dtype)[0]``. On a directed graph
      (``graph.directed``) a pair counts in its target's degree alone.
    """

    def __init__(self, graph: Graph, dtype: torch.dtype) -> None:
        self.graph = graph
        self.dtype = dtype

    # ---- must: what every aggregator says -------------------------------------------------------------------------

    @abstractmethod
    def clean(self) -> Weights:
        """α_ij on the clean graph; ``added`` is empty."""

    @abstractmethod
    def on(self, view: View) -> Weights:
        """α'_ij on a view: zero on dropped edges."""

    @abstractmethod
    def mean(self, distribution: Distribution) -> Moments:
        """E[α'_ij]."""

    @abstractmethod
    def variance(self, distribution: Distribution) -> Moments:
        """Var[α'_ij]; the loop's is not part of Prop. 3 and is zero."""

    # ---- may: what a subclass may know better ---------------------------------------------------------------------

    def ratio(self, distribution: Distribution) -> tuple[Tensor, Tensor]:
        """α/E[α'] on edges and loops, the correction factor of Eq. 8; 0 where there is no coefficient."""
        clean, mean = self.clean(), self.expected(distribution)
        edges = clean.edges / torch.where(mean.edges != 0, mean.edges, 1.0)
        return edges, clean.loop / torch.where(mean.loop != 0, mean.loop, 1.0)

    def covariance(self, distribution: Distribution) -> Moments:
        """Cov[α'_ij, α'_ji], for pooling: both ends of an edge reach the graph logit.

        Given that the pair is present the two directions are independent unless they share their normalisation, hence
        (1−π)/π · E[α'_ij] E[α'_ji] on edges. On non-edges the same holds, but there it takes the aggregator's own
        formula: without one they count as independent, which `rade.testing` finds. On directed graphs the directions
        are drawn apart, and this is not asked.
        """
        mean, p = self.expected(distribution).edges, distribution.rates.p
        back = mean[self.graph.pattern.transposition]
        return Moments(p / (1.0 - p) * mean * back, self.no_loop(), Sums(self.graph))

    def response(self, view: View, slopes: Slopes) -> tuple[Tensor, Tensor]:
        """How a linear form answers to a pair being present, E[s | present] − E[s | absent]; for `noise_report` alone.

        To first order. Directed parts on the clean edges [E] and on the view's additions [A]; both directions of a
        pair add up. Here: what a pair's own message brings. Where coefficients share a normalisation, others change
        with it as well.
        """
        edges = self.present(view.distribution, 2).sqrt() * slopes.edges
        return edges, self.on(view).added * slopes.added

    def denoised(self, observed: Observed) -> Sums:
        """An estimate of the clean aggregation from an observed graph with spurious and missing edges."""
        raise ValueError(
            f"{type(self).__name__} cannot undo noise in its graph: it has no method `denoised`; sums, means, "
            "symmetric normalisation and attention have"
        )

    def cap(self, distribution: Distribution) -> float | Tensor:
        """Largest factor α/E[α'] allowed: unbounded where the mean is exact."""
        return distribution.correction.limit()

    def realised(self, weights: Weights) -> Weights:
        """Weights as they multiply messages in this forward pass; attention puts its dropout here."""
        return weights

    # ---- for speed: promises that save work -----------------------------------------------------------------------

    @property
    def key(self) -> Hashable | None:
        """Equal keys of a class promise equal coefficients on a graph, so that layers share what they compute.

        ``self.dtype`` must be part of it. None, the default, promises nothing: right wherever coefficients depend on
        features or parameters.
        """
        return None

    def rate_factors(self, distribution: Distribution) -> RateFactors | None:
        """(a, b) with Var(δ) = a(p)·(edge part) + b(q)·(non-edge part), where the variance separates so; else None."""
        return None

    # ---- for all: nothing to write --------------------------------------------------------------------------------

    @once
    def expected(self, distribution: Distribution) -> Moments:
        """E[α'_ij], computed once for each distribution."""
        return self.mean(distribution)

    @once
    def varying(self, distribution: Distribution) -> Moments:
        """Var[α'_ij], computed once for each distribution."""
        return self.variance(distribution)

    def present(self, distribution: Distribution, power: int) -> Tensor:
        """E[α'^power | the pair is present] on edges, for the first two powers, [E]."""
        mean = self.expected(distribution).edges
        whole = mean if power == 1 else self.varying(distribution).edges + mean.square()
        return whole / (1.0 - distribution.rates.p)

    @cached_property
    def _cache(self) -> WeakKeyDictionary[Distribution, dict[Hashable, Any]]:
        return WeakKeyDictionary()

    def detached(self: T) -> T:
        """The same without derivatives in features and parameters."""
        return without_derivatives(self)

    def no_loop(self) -> Tensor:
        """Loop weights of an aggregator without loops, [n]."""
        return self._zeros

    @cached_property
    def _zeros(self) -> Tensor:
        return torch.zeros(self.graph.num_nodes, dtype=self.dtype, device=self.graph.device)

    def nothing_added(self) -> Tensor:
        """Weights of no added edges, [0]."""
        return torch.zeros(0, dtype=self.dtype, device=self.graph.device)

    def everywhere(self, value: float | Tensor, size: int) -> Tensor:
        """A constant weight, [size]; differentiable in ``value``."""
        return torch.ones(size, dtype=self.dtype, device=self.graph.device) * value
