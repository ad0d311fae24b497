"""Rates, the law of random views, and drawing one view from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.graph.pairs import bernoulli_positions, fixed_positions, symmetric_pattern, unrank_pairs
from rade.graph.sparse import Pattern

T = TypeVar("T")
MomentsName = Literal["exact", "delta", "monte-carlo"]
ComplementName = Literal["exact", "sampled"]
SamplingName = Literal["bernoulli", "fixed"]


class Variant(str, Enum):
    """How a view is corrected: RADE-OF, RADE-OFS, or not at all (the ablation without EPC)."""

    OF = "of"
    OFS = "ofs"
    NONE = "none"


def choose(what: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def number(rate: float | Tensor) -> float:
    """A rate as a plain number; a tensor may carry gradients."""
    return float(rate.detach()) if isinstance(rate, Tensor) else float(rate)


@dataclass(frozen=True)
class Rates:
    """Drop rate p of edges and add rate q of non-edges (Eq. 4: A'_ij ~ Bernoulli(1−p) or Bernoulli(q)).

    >>> Rates(p=0.5, q=0.001)
    Rates(p=0.5, q=0.001)
    """

    p: float | Tensor = 0.5
    q: float | Tensor = 0.0

    def __post_init__(self) -> None:
        p, q = number(self.p), number(self.q)
        if not 0.0 <= p < 1.0:
            raise ValueError(f"drop rate p must lie in [0, 1), got {p}; p = 1 removes every edge and has no correction")
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"add rate q must lie in [0, 1], got {q}; it is the probability of adding a non-edge")

    def scaled(self, factor: float) -> Rates:
        """The same drop rate with q·factor, e.g. n_b/n for inference on the full graph after training on batches."""
        return Rates(self.p, self.q * factor)


@dataclass(frozen=True)
class Correction:
    """How moments are computed and messages corrected; every field is a choice of `rade.RADE`."""

    variant: Variant | str = Variant.OF
    moments: MomentsName = "exact"
    complement: ComplementName = "exact"
    samples: int = 256  # draws for "monte-carlo" and non-neighbors per node for "sampled"
    max_correction: float | Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        choose("variant", str(getattr(self.variant, "value", self.variant)), tuple(v.value for v in Variant))
        object.__setattr__(self, "variant", Variant(self.variant))
        choose("moments", self.moments, get_args(MomentsName))
        choose("complement", self.complement, get_args(ComplementName))
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        cap = self.max_correction
        if cap not in ("auto", "none") and (isinstance(cap, str) or not cap >= 1.0):
            raise ValueError(f"max_correction must be 'auto', 'none' or a number >= 1, got {cap!r}")

    def cap(self, auto: float | Tensor = math.inf) -> float | Tensor:
        """The largest allowed factor α/E[α']; ``auto`` is what an aggregator asks for by itself."""
        if self.max_correction == "auto":
            return auto
        return math.inf if self.max_correction == "none" else float(self.max_correction)


@dataclass(frozen=True)
class Law:
    """The distribution of random views and how to correct for it: all that moments depend on besides the graph."""

    rates: Rates
    correction: Correction = Correction()
    generator: torch.Generator | None = None

    def at(self, rates: Rates) -> Law:
        """The same law at other rates."""
        return replace(self, rates=rates)


@dataclass(frozen=True, eq=False)
class View:
    """One random view A': which edges were kept and which non-edges added. Travels in place of ``edge_index``."""

    graph: Graph
    law: Law
    kept: Tensor  # [E] bool, equal for both directions of an edge
    added: Pattern  # symmetric, both directions
    _memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def rates(self) -> Rates:
        """The rates it was drawn with."""
        return self.law.rates

    @property
    def edge_index(self) -> Tensor:
        """[2, E'] of the view, kept edges first: for other libraries; the convolutions take the view itself."""
        return torch.cat(
            [self.graph.edge_index[:, self.kept], torch.stack([self.added.source, self.added.target])], dim=1
        )

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """What ``build`` returns, computed on first use: layers that aggregate alike share their operator."""
        if key not in self._memo:
            self._memo[key] = build()
        found: T = self._memo[key]
        return found

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_not_a_tensor(type(self).__name__, name))


@dataclass(frozen=True, eq=False)
class MeanView:
    """The mean over all views, for inference: RADE-OF is the clean graph, RADE-OFS keeps the expected additions."""

    graph: Graph
    law: Law

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_not_a_tensor(type(self).__name__, name))


@dataclass(frozen=True, eq=False)
class FreshViews:
    """An independent view for every convolution that asks: ``share_view=False``."""

    graph: Graph
    law: Law
    sampling: SamplingName = "bernoulli"

    def draw(self) -> View:
        """The next view."""
        return sample_view(self.graph, self.law.rates, self.law.generator, self.law.correction, self.sampling)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_not_a_tensor(type(self).__name__, name))


def _not_a_tensor(kind: str, name: str) -> str:
    return (
        f"{kind!r} has no attribute {name!r}: RADE passes a random view where the model expects edge_index; only "
        "convolutions that RADE converted can take it. Code that reads edge_index as a tensor can use "
        "`.graph.edge_index`"
    )


def sample_view(
    graph: Graph,
    rates: Rates,
    generator: torch.Generator | None = None,
    correction: Correction | None = None,
    sampling: SamplingName = "bernoulli",
) -> View:
    """Draw a view (Eq. 4): keep every edge with probability 1−p, add every non-edge with probability q.

    Costs O(edges + additions). ``sampling="fixed"`` adds round(q · non-edges) of them without replacement, the
    paper's footnote. All randomness comes from ``generator``.

    >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    >>> sample_view(graph, Rates(p=0.0, q=1.0)).edge_index.shape
    torch.Size([2, 6])
    """
    choose("sampling", sampling, get_args(SamplingName))
    law = Law(rates, correction or Correction(), generator)
    kept = _kept(graph, number(rates.p), generator)
    rank = _SAMPLERS[sampling](graph, number(rates.q), generator)
    return View(graph, law, kept, _added(graph, rank))


def _kept(graph: Graph, p: float, generator: torch.Generator | None) -> Tensor:
    """One Bernoulli(1−p) per undirected edge, told to both directions."""
    kept = torch.ones(graph.pattern.size, dtype=torch.bool, device=graph.device)
    if p == 0.0:
        return kept
    drawn = torch.rand(graph.num_edges, generator=generator, device=graph.device) >= p
    kept[graph.upper] = drawn
    kept[graph.pattern.transposition[graph.upper]] = drawn
    return kept


def _bernoulli_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """Walk all pairs, then discard the edges: what is left of i.i.d. Bernoulli draws is i.i.d. Bernoulli."""
    rank = bernoulli_positions(int(graph.pair_offset[-1]), q, generator, graph.device)
    if graph.num_edges == 0:
        return rank
    at = torch.searchsorted(graph.edge_rank, rank).clamp_(max=graph.num_edges - 1)
    return rank[graph.edge_rank[at] != rank]


def _fixed_ranks(graph: Graph, q: float, generator: torch.Generator | None) -> Tensor:
    """round(q · non-edges) of them; the k-th non-edge has rank k + number of edges before it."""
    nonedges = int(graph.pair_offset[-1]) - graph.num_edges
    chosen = fixed_positions(nonedges, round(q * nonedges), generator, graph.device)
    before = graph.edge_rank - torch.arange(graph.num_edges, device=graph.device)
    return chosen + torch.searchsorted(before, chosen, right=True)


_SAMPLERS = {"bernoulli": _bernoulli_ranks, "fixed": _fixed_ranks}


def _added(graph: Graph, rank: Tensor) -> Pattern:
    """Ranks in the common pair space of a batch, ascending, as a symmetric pattern."""
    if graph.num_graphs == 1:
        low, high = unrank_pairs(rank, graph.sizes)
    else:
        of = torch.searchsorted(graph.pair_offset, rank, right=True) - 1
        low, high = unrank_pairs(rank - graph.pair_offset[of], graph.sizes[of])
        low, high = low + graph.ptr[of], high + graph.ptr[of]
    return symmetric_pattern(low, high, graph.num_nodes)
