"""What a rate rule sees of a training step: what it says it reads, found before it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

from torch import Tensor

from rade.control.regulariser import Regulariser

Reads = Literal["regulariser", "data_norm", "logits"]


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

    Those that a rule names in ``reads`` are there, the others are not: a rule pays for what it looks at.
    """

    found_regulariser: Regulariser | None = None
    found_data_norm: Tensor | None = None
    found_logits: Logits | None = None

    @property
    def regulariser(self) -> Regulariser:
        """R as a function of the rates, with its gradient norm (Eq. 13)."""
        return _undeclared("regulariser") if self.found_regulariser is None else self.found_regulariser

    @property
    def data_norm(self) -> Tensor:
        """G_data = ‖∇θL‖."""
        return _undeclared("data_norm") if self.found_data_norm is None else self.found_data_norm

    @property
    def logits(self) -> Logits:
        """Logits of the labelled rows, detached."""
        return _undeclared("logits") if self.found_logits is None else self.found_logits


def _undeclared(what: Reads) -> NoReturn:
    raise ValueError(f"this rule looks at {what} without having said so: put reads = ({what!r},) into its class")
