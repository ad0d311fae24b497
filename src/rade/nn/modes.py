"""A model in evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from rade.nn.output import logits_of


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part has its own mode again, frozen layers too."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def predicted(model: Module, run: Callable[[], Any]) -> Tensor:
    """The logits of a call of the model, in evaluation mode and without gradients."""
    with torch.no_grad(), evaluating(model):
        return logits_of(run())
