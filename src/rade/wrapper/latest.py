"""The last training call of a model: its arguments, its logits, and what the loss told them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rade.control.gradients import NoGradient
from rade.control.labelled import Labelled
from rade.control.readout import Readout
from rade.graph.graph import Graph
from rade.nn.output import has_logits, logits_of
from rade.wrapper.call import Call

SHIFT_FREE = 1e-3  # a softmax's gradient sums to 0 over classes, up to rounding


class Latest:
    """What `RADE.adapt` and `RADE.follow` know of the training step that has just been."""

    def __init__(self, call: Call, graph: Graph, output: Any) -> None:
        self.call, self.graph = call, graph
        self.logits = logits_of(output).detach() if has_logits(output) else None
        self.reached: Tensor | None = None
        self._gradient: Tensor | None = None
        if self.logits is not None and logits_of(output).requires_grad:
            logits_of(output).register_hook(self._reach)  # type: ignore[no-untyped-call]

    def _reach(self, gradient: Tensor) -> None:
        """Rows that received a gradient, over all backward passes."""
        reached = (gradient != 0).reshape(len(gradient), -1).any(1)
        self.reached = reached if self.reached is None else self.reached | reached
        self._gradient = gradient.detach()

    @property
    def labelled(self) -> Labelled:
        """The rows that the loss was taken over."""
        if self.reached is None or not bool(self.reached.any()):
            raise NoGradient(
                "the last training call received no gradient: adapt() without arguments needs loss.backward() first, "
                "on a loss of what the model returned"
            )
        return Labelled(self.reached.nonzero().squeeze(1))

    def is_of_classes(self, readout: Readout) -> bool:
        """Whether the loss may be one of class scores, as far as the precision of the logits can tell.

        A softmax does not change when all logits of a row shift, so every loss of it has gradients that sum to 0 over
        classes; log-probabilities are told by their values. Regression, embeddings and sigmoids are neither. Rows that
        are certain of their class are left out: nothing but rounding is left of their gradients.
        """
        gradient, logits = self._gradient, self.logits
        if readout.task != "auto" or gradient is None or logits is None or gradient.dim() != 2:
            return True
        if len(gradient) == 0 or gradient.shape[1] == 1 or readout.loss is not None:  # no classes: the readout says so
            return True
        rounding = gradient.shape[1] * torch.finfo(logits.dtype).eps
        bound = max(SHIFT_FREE, rounding)
        logits = logits.double()
        open_ = logits.softmax(1).amax(1) < 1.0 - rounding / bound
        size, shift = gradient.double().abs().sum(1)[open_].sum(), gradient.double().sum(1).abs()[open_].sum()
        normed = bool(logits.logsumexp(1).abs().max() < bound)
        return normed or not bool(shift > bound * size)
