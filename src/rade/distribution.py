"""The distribution of random views of a graph, and how messages are corrected for it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from rade.errors import choose
from rade.graph.graph import Graph
from rade.runtime import by_fields

MomentsName = Literal["exact", "delta"]
SamplingName = Literal["bernoulli", "fixed", "expected"]
Relation = tuple[str, str, str] | int  # an edge type, or the number of a kind of edges
Reverse = tuple[tuple[Relation | str, Relation | str], ...] | str  # pairs of relations, or the prefix of reverses


@dataclass(frozen=True)
class Rates:
    """Drop rate p of edges and add rate q of non-edges (Eq. 6: A'_ij ~ Bernoulli(1−p) or Bernoulli(q)).

    >>> Rates(p=0.5, q=0.001)
    Rates(p=0.5, q=0.001)
    """

    p: float | Tensor = 0.5
    q: float | Tensor = 0.0
    numbers: tuple[float, float] = field(init=False, repr=False, compare=False)  # p and q without gradients
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # moments at these

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return by_fields(self)

    def __post_init__(self) -> None:
        p, q = self.p, self.q
        p, q = float(p.detach()) if isinstance(p, Tensor) else p, float(q.detach()) if isinstance(q, Tensor) else q
        object.__setattr__(self, "numbers", (p, q))
        if not 0.0 <= p < 1.0:
            raise ValueError(f"drop rate p must lie in [0, 1), got {p}; p = 1 removes every edge and has no correction")
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"add rate q must lie in [0, 1], got {q}; it is the probability of adding a non-edge")

    def scaled(self, factor: float) -> Rates:
        """The same drop rate with q·factor: n_b/n keeps the additions per node of a model trained on n_b nodes.

        >>> Rates(p=0.5, q=0.01).scaled(0.1)
        Rates(p=0.5, q=0.001)
        """
        return Rates(self.p, self.q * factor)


class Variant(str, Enum):
    """How a view is corrected: RADE-OF, RADE-OFS, or not at all (the ablation without EPC)."""

    corrects: bool  # whether edges are weighed by α/E[α'] (Eq. 8, 10)
    centres: bool  # whether the mean over non-neighbors is taken off additions, so that they vanish on average
    keeps_additions: bool  # whether inference adds the expected additions (Eq. 11)

    OF = "of"
    OFS = "ofs"
    NONE = "none"

    def __init__(self, name: str) -> None:
        self.corrects, self.centres, self.keeps_additions = name != "none", name == "of", name == "ofs"

    @classmethod
    def _missing_(cls, value: object) -> None:
        choose("variant", value, tuple(variant.value for variant in cls))


@dataclass(frozen=True)
class Correction:
    """How the moments of a view are computed and how far messages are corrected for them.

    Attributes:
        by: ``"moments"`` of coefficients where a layer has them in closed form, and pairs of views for every other
            layer; or ``"pairs"`` for all.
        moments: of random degrees and attention denominators: ``"exact"``, or the paper's second-order ``"delta"``
            expansion.
        cap: largest correction factor α/E[α']: a number, ``"none"``, or ``"auto"``, what the aggregator asks for.
        tolerance: relative error that exact moments of attention may have: 1e-3 cannot be seen beside the noise of a
            view, 1e-5 is for proofs and several times slower. Other aggregators have no such error.
    """

    moments: MomentsName = "exact"
    cap: float | Literal["auto", "none"] = "auto"
    by: Literal["moments", "pairs"] = "moments"
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        choose("by", self.by, ("moments", "pairs"))
        choose("moments", self.moments, get_args(MomentsName))
        if not 1e-5 <= self.tolerance <= 1.0:
            raise ValueError(f"tolerance must lie in [1e-5, 1], got {self.tolerance!r}; 1e-5 is the finest there is")
        if self.cap not in ("auto", "none") and (isinstance(self.cap, str) or not self.cap >= 1.0):
            raise ValueError(f"cap must be 'auto', 'none' or a number >= 1, got {self.cap!r}")

    def limit(self, auto: float | Tensor = math.inf) -> float | Tensor:
        """The largest allowed factor; ``auto`` is what an aggregator asks for by itself."""
        if self.cap == "auto":
            return auto
        return math.inf if self.cap == "none" else float(self.cap)


@dataclass(frozen=True)
class Views:
    """How views are drawn.

    Attributes:
        shared: one view for all layers of a pass, as the paper's text has it; otherwise every convolution has a view of
            its own, and expectations are preserved through several linear layers.
        sampling: every non-edge by itself (``"bernoulli"``), or a ``"fixed"`` number round(q · non-edges) of them.
            ``"expected"``: nothing is drawn, training runs on the mean over views as inference does; RADE-OFS is then
            a virtual node of fixed weight. Where views are asked for all the same, by an ensemble say, they are
            Bernoulli ones.
        directed: whether each direction of an edge is dropped or added by itself, also where both are there. An
            ``edge_index`` with edges in one direction only is a directed graph in any case.
        reverse: which relations are each other's reverse. A pair of nodes is then dropped, or added, in both or in
            neither. By default those that PyG names so, ``("paper", "rev_writes", "author")``; or a dict from relations
            to their reverses, by edge type, by the middle of it, or for `RGCNConv` by number; ``{}`` for none.
    """

    shared: bool = False
    sampling: SamplingName = "bernoulli"
    directed: bool = False
    reverse: Reverse | Mapping[Relation | str, Relation | str] = "rev_"

    def __post_init__(self) -> None:
        if isinstance(self.reverse, Mapping):
            object.__setattr__(self, "reverse", tuple(self.reverse.items()))  # values can be compared and hashed
        elif not isinstance(self.reverse, str | tuple):
            raise ValueError(f"reverse must be a dict from relations to their reverses, got {self.reverse!r}")
        for name, value in (("shared", self.shared), ("directed", self.directed)):
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        choose("sampling", self.sampling, get_args(SamplingName))


@dataclass(frozen=True, eq=False)
class Trust:
    """How far each observed edge is trusted, from what is known beside the graph; by default all are, alike.

    Attributes:
        edges: a weight for each observed edge, [E] in the order of the graph; or one for all.
        spurious: what a spurious edge weighs on average.
        real: what a real edge weighs on average.
        ends: factors a [n] of mean 1 by which nodes differ: between i and j spurious edges weigh a_i a_j times the
            average.
    """

    edges: Tensor | float = 1.0
    spurious: float = 1.0
    real: float = 1.0
    ends: Tensor | float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.spurious <= self.real or self.real == 0.0:
            raise ValueError(
                "real edges must weigh at least as much as spurious ones, and more than nothing, got "
                f"{self.real:g} and {self.spurious:g} on average"
            )

    @property
    def alike(self) -> bool:
        """Whether all edges are trusted fully and alike; also true of copies."""
        values = (self.edges, self.spurious, self.real, self.ends)
        return not any(isinstance(value, Tensor) for value in values) and set(values) == {1.0}

    def check(self, graph: Graph) -> None:
        """Refuse weights of another graph."""
        for name, values, size in (("edges", self.edges, graph.pattern.size), ("ends", self.ends, graph.num_nodes)):
            if isinstance(values, Tensor) and values.shape != (size,):
                raise ValueError(
                    f"trust was found for another graph: expected {size} values for {name}, got {list(values.shape)}; "
                    "estimate it again on this one"
                )

    def weights(self, size: int, device: torch.device) -> Tensor:
        """The weight of every edge, [E] in double precision."""
        return torch.as_tensor(self.edges, dtype=torch.double, device=device).expand(size)

    def factors(self, size: int, device: torch.device) -> Tensor:
        """The factor of every node, [n] in double precision."""
        return torch.as_tensor(self.ends, dtype=torch.double, device=device).expand(size)


NO_NOISE = Rates(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of random views of one graph, and how to correct for it: all that moments depend on.

    What follows from it alone (moments, correction factors, the expected aggregation) is kept in ``cache``, so layers,
    views and passes at the same rates share it. With ``Views(sampling="fixed")`` the add rate becomes what the fixed
    number really is, round(q · non-edges) / non-edges: on tiny graphs it may be 0.

    Attributes:
        graph: the clean graph or batch of graphs.
        rates: p and q; tensors may carry gradients.
        variant: RADE-OF, RADE-OFS or none.
        correction: how moments are computed.
        views: how views are drawn.
        noise: rates at which the graph itself has lost real edges and gained spurious ones; what is preserved in
            expectation is then an estimate of the aggregation on the graph without that noise.
        trust: what is known of single edges of a noisy graph.
    """

    graph: Graph
    rates: Rates
    variant: Variant = Variant.OF
    correction: Correction = Correction()
    views: Views = Views()
    noise: Rates = NO_NOISE
    trust: Trust = Trust()
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.views.sampling == "fixed" and not isinstance(self.rates.q, Tensor):
            count = max(self.graph.num_nonedges, 1)
            object.__setattr__(self, "rates", Rates(self.rates.p, round(self.rates.q * count) / count))

    @cached_property
    def noisy(self) -> bool:
        """Whether the graph itself is taken for a noisy one."""
        return self.noise != NO_NOISE or not self.trust.alike

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return by_fields(self)

    def at(self, rates: Rates) -> Distribution:
        """The same at other rates."""
        return replace(self, rates=rates)
