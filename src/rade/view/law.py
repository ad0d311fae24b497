"""The distribution of random views of a graph, and how messages are corrected for it."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, get_args

import torch
from torch import Tensor

from rade.errors import choose
from rade.graph.graph import Graph
from rade.memory import Memo
from rade.view.drawn import Drawn, DrawnForView
from rade.view.rates import Rates, number
from rade.view.trust import Trust

MomentsName = Literal["exact", "delta", "monte-carlo"]
ComplementName = Literal["exact", "sampled"]
SamplingName = Literal["bernoulli", "fixed", "expected"]


class Variant(str, Enum):
    """How a view is corrected: RADE-OF, RADE-OFS, or not at all (the ablation without EPC)."""

    OF = "of"
    OFS = "ofs"
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> None:
        choose("variant", value, tuple(variant.value for variant in cls))

    @property
    def corrects(self) -> bool:
        """Whether edges are weighed by α/E[α'] (Eq. 8, 10)."""
        return self is not Variant.NONE

    @property
    def centres(self) -> bool:
        """Whether the mean over non-neighbors is taken off added messages, so that additions vanish on average."""
        return self is Variant.OF

    @property
    def keeps_additions(self) -> bool:
        """Whether inference adds the expected additions (Eq. 11)."""
        return self is Variant.OFS


@dataclass(frozen=True)
class Correction:
    """How the moments of a view are computed and how far messages are corrected for them.

    Attributes:
        moments: of random degrees and attention denominators: ``"exact"``, the paper's second-order ``"delta"``
            expansion, or ``"monte-carlo"`` averages (for comparison; refuses rules that adapt).
        complement: attention's sums over non-neighbors: ``"exact"``, or ``"sampled"`` as in the paper.
        samples: draws for ``"monte-carlo"``, and non-neighbors per node for ``"sampled"``.
        cap: largest correction factor α/E[α']: a number, ``"none"``, or ``"auto"``, what the aggregator asks for.
    """

    moments: MomentsName = "exact"
    complement: ComplementName = "exact"
    samples: int = 256
    cap: float | Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        choose("moments", self.moments, get_args(MomentsName))
        choose("complement", self.complement, get_args(ComplementName))
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
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
            a virtual node of fixed weight. Who asks for views all the same, as an ensemble does, gets Bernoulli ones.
        directed: whether ``edge_index`` is taken as directed: each direction is dropped or added by itself, also where
            both are there. Otherwise an ``edge_index`` with edges in one direction only is refused.
    """

    shared: bool = False
    sampling: SamplingName = "bernoulli"
    directed: bool = False

    def __post_init__(self) -> None:
        for name, value in (("shared", self.shared), ("directed", self.directed)):
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        choose("sampling", self.sampling, get_args(SamplingName))


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of random views of one graph, and how to correct for it: all that moments depend on.

    What follows from a law alone (moments, correction factors, the expected aggregation) is kept in its ``memo``, so
    layers, views and passes at the same rates share it. With ``Views(sampling="fixed")`` the add rate becomes what the
    fixed number really is, round(q · non-edges) / non-edges: on tiny graphs it may be 0.

    Attributes:
        graph: the clean graph or batch of graphs.
        rates: p and q; tensors may carry gradients.
        variant: RADE-OF, RADE-OFS or none.
        correction: how moments are computed.
        views: how views are drawn.
        generator: where their randomness comes from; torch's default generator if None.
        noise: rates at which the graph itself has lost real edges and gained spurious ones; what is preserved in
            expectation is then an estimate of the aggregation on the graph without that noise.
        trust: what is known of single edges of a noisy graph.
        drawn: the samples that moments are estimated from, where they have no closed form.
    """

    graph: Graph
    rates: Rates
    variant: Variant = Variant.OF
    correction: Correction = Correction()
    views: Views = Views()
    generator: torch.Generator | None = None
    noise: Rates = Rates(0.0, 0.0)  # noqa: RUF009 - a frozen value
    trust: Trust = Trust()  # noqa: RUF009
    drawn: Drawn = field(default_factory=Drawn, repr=False)
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variant", Variant(self.variant))
        if self.views.sampling == "fixed" and not isinstance(self.rates.q, Tensor):
            count = max(self.graph.num_nonedges, 1)
            object.__setattr__(self, "rates", Rates(self.rates.p, round(self.rates.q * count) / count))

    @property
    def local(self) -> bool:
        """Whether a node of a view hears its neighbors only: centering takes off a mean over everybody.

        Averages over sampled views are drawn between the layers' own views, so layers must come in their order.
        """
        centres = self.variant.centres and number(self.rates.q) > 0.0
        return not centres and self.correction.moments != "monte-carlo" and self.noise == Rates(0.0, 0.0)

    @property
    def differentiable(self) -> bool:
        """Whether derivatives in the rates are asked for."""
        return any(isinstance(rate, Tensor) and rate.requires_grad for rate in (self.rates.p, self.rates.q))

    def afresh(self) -> Law:
        """The same law, knowing what this one knows, with estimates from samples of its own by the generator."""
        found = copy(self)
        object.__setattr__(found, "drawn", DrawnForView(self.generator))
        return found

    def at(self, rates: Rates) -> Law:
        """The same law at other rates."""
        return replace(self, rates=rates)

    def on(self, graph: Graph) -> Law:
        """The same law on another graph."""
        return replace(self, graph=graph)
