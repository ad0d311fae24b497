"""Any model as the training loop sees it: called with `Data` objects, its rates following each step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from rade.augment import Labelled, Learner
from rade.comparison.calling import Calling
from rade.view.rates import Rates
from rade.wrapper.inference import Expected
from rade.wrapper.module import RADE


class AnyLearner(Learner):
    """A model of the user's, with whatever a method has put around it or into it."""

    def __init__(self, net: nn.Module, generator: torch.Generator, calling: Calling) -> None:
        super().__init__(net, generator)
        self.calling = calling
        self._wrapped = [module for module in net.modules() if isinstance(module, RADE)]

    def forward(self, data: Data, rows: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Logits of some rows, or of all."""
        logits = self.calling(self.net, data)
        return logits if rows is None else logits[rows]

    def adapts_after(self, last: bool) -> bool:
        """After every step, if there are rates that adapt."""
        return any(model.rule.adapts for model in self._wrapped)

    def follow(self, labelled: Labelled) -> Tensor | None:
        """One step of all rates; the clean logits of every row where these are the evaluation logits."""
        clean = None
        for model in self._wrapped:
            if model is self.net:
                clean = model.adapt(labelled=labelled)
                if model.variant.keeps_additions or type(model.inference) is not Expected:
                    clean = None
            elif model.rule.adapts:
                model.adapt()
        return clean

    @property
    def rates(self) -> Rates:
        """Those of the model, or of the first part that has any."""
        return self._wrapped[0].rates if self._wrapped else Rates(0.0, 0.0)
