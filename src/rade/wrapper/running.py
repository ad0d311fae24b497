"""A call of a model, to be repeated on any adjacency and in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from rade.graph.adjacency import Adjacency
from rade.wrapper.call import Call, on_clean
from rade.wrapper.conversion import unsupported
from rade.wrapper.output import logits_of


@dataclass(frozen=True, eq=False)
class Running:
    """A model and the arguments of one call."""

    model: Module
    call: Call

    def __call__(self, adjacency: Adjacency | None) -> Any:
        """The model's output on an adjacency, or on the caller's own edge_index."""
        model, call = self.model, self.call
        method = model if call.entry.method == "forward" else getattr(model, call.entry.method)
        args, kwargs = call.with_graph(call.edge_index if adjacency is None else adjacency)
        if adjacency is None:
            return method(*args, **kwargs)
        alone = unsupported(model)
        hooks = [module.register_forward_pre_hook(on_clean(adjacency, call), with_kwargs=True) for module in alone]
        try:
            return method(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    def asking(self, rows: Tensor) -> Running:
        """The same for the logits of other nodes; only where the call asks for some."""
        return replace(self, call=self.call.asking(rows))

    def prediction(self, adjacency: Adjacency) -> Tensor:
        """The logits in evaluation mode and without gradients."""
        with torch.no_grad(), evaluating(self.model):
            return logits_of(self(adjacency))


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
