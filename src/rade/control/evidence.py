"""What a rate rule may look at after a training step; nothing is computed until it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from rade.control.regulariser import Regulariser
from rade.memory import Memo, remembered


@dataclass(frozen=True, eq=False)
class Logits:
    """Logits of the labelled rows: as they were in training, and on the mean over views; for a softmax relative to
    their mean over classes, since a common shift changes nothing.
    """

    training: Tensor  # [k, C]
    mean: Tensor  # [k, C]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The regulariser, the norm of the data's gradient, and the logits with and without noise.

    Each is found by a function of no arguments, at most once: a rule pays for what it looks at.
    """

    find_regulariser: Callable[[], Regulariser]
    find_data_norm: Callable[[], Tensor]
    find_logits: Callable[[], Logits]
    memo: Memo = field(default_factory=Memo, init=False, repr=False)

    @remembered
    def regulariser(self) -> Regulariser:
        """R as a function of the rates, with its gradient norm (Eq. 13)."""
        return self.find_regulariser()

    @remembered
    def data_norm(self) -> Tensor:
        """G_data = ‖∇θL‖."""
        return self.find_data_norm()

    @remembered
    def logits(self) -> Logits:
        """Logits of the labelled rows, detached."""
        return self.find_logits()
