"""PyG layers on views of a test's own choice: every view of a small graph, or several at once, with its probability."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from rade import Constant, Correction, Graph, Rates, Variant
from rade.distribution import Distribution
from rade.nn.context import BatchVectors, Context, Setting
from rade.rates.state import RateState
from rade.testing.oracle import AllViews, copies, view_of
from rade.views import View
from rade.wrapper.conversion import attach, convert


def on_views(layer: Any, rates: Rates, by: str = "moments", variant: str = "of", seed: int = 0) -> tuple[Any, Context]:
    """A copy of a PyG layer that trains on views, and where it gets them from."""
    setting = Setting(Variant(variant), Correction(by=by))
    state = RateState(Constant(*rates.numbers), density=1.0)
    context = Context(setting, state, torch.Generator().manual_seed(seed))
    converted = convert(copy.deepcopy(layer))
    attach(converted, context)
    return converted.train(), context


class AllDraws:
    """Every outcome of ``draws`` independent views of a graph, one in each copy of it."""

    def __init__(self, graph: Graph, rates: Rates, draws: int) -> None:
        views = AllViews(Distribution(graph, rates))
        self.choices = torch.cartesian_prod(*[torch.arange(views.count)] * draws).view(-1, draws)
        self.dense, self.weight, self.count = views.dense, views.weight[self.choices].prod(1), len(self.choices)
        self.copies, self.drawn = copies(graph, self.count), 0

    def __call__(self, context: Context, distribution: Distribution) -> View:
        """The next view of all copies, in the place of `Context.draw`."""
        self.drawn += 1
        return view_of(distribution, self.dense[self.choices[:, self.drawn - 1]])

    def mean(self, monkeypatch: pytest.MonkeyPatch, layer: Any, context: Context, x: Tensor, *edges: Tensor) -> Tensor:
        """The mean output of a layer over all outcomes."""
        monkeypatch.setattr(Context, "draw", lambda context, distribution: self(context, distribution))
        repeated = [value.repeat(self.count, *[1] * (value.dim() - 1)) for value in (x, *edges)]
        # Copy by copy, as the edges are.
        with torch.no_grad(), context.running(BatchVectors([self.copies.batch])):
            out = layer(repeated[0], self.copies.given, *repeated[1:])
        return torch.einsum("k,k...->...", self.weight, out.view(self.count, -1, out.shape[-1]))
