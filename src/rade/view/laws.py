"""The distributions of views that one model draws from: alike in all but graph and rates."""

from __future__ import annotations

from typing import Any

import torch

from rade.graph.graph import Graph
from rade.memory import Memo
from rade.view.law import Correction, Law, Variant, Views
from rade.view.randomness import branched, moved, packed, seeded, unpacked
from rade.view.rates import Rates
from rade.view.trust import Trust

KEPT = 2  # the law of training and that of evaluation


class Laws:
    """``laws(graph, rates)``, one `Law` for the same two; pickles go on from the generator's state, copies branch off.

    Attributes:
        variant, correction, views, noise, trust: as in `Law`.
        generator: source of all randomness; it moves to the device of the graph when first used.
    """

    def __init__(
        self,
        variant: Variant = Law.variant,
        correction: Correction = Law.correction,
        views: Views = Law.views,
        noise: Rates = Law.noise,
        trust: Trust = Law.trust,
        generator: torch.Generator | None = None,
    ) -> None:
        self.variant, self.correction, self.views = variant, correction, views
        self.noise, self.trust = noise, trust
        self.generator = seeded() if generator is None else generator
        self.memo, self._copies = Memo(KEPT), 0

    def __call__(self, graph: Graph, rates: Rates) -> Law:
        """The distribution of views of a graph."""
        if self.generator.device != graph.device:
            self.generator = moved(self.generator, graph.device)
        rest = (self.variant, self.correction, self.views, self.generator, self.noise, self.trust)
        return self.memo.once((graph, rates), lambda: Law(graph, rates, *rest))

    def __getstate__(self) -> dict[str, Any]:
        """Everything, with the generator as its state: generators cannot be pickled."""
        return self.__dict__ | {"generator": packed(self.generator)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Laws:
        """The same distributions from a stream of its own: a teacher or an average must not see the model's views."""
        self._copies += 1
        rest = (self.variant, self.correction, self.views, self.noise, self.trust)
        return Laws(*rest, branched(self.generator, self._copies))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"generator": unpacked(state["generator"])})
