"""The logits of a pass over a graph, and what the last convolution sent to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from rade.graph.graph import Graph
from rade.moments.base import Sent
from rade.nn.head import head_matrix
from rade.nn.modes import evaluating
from rade.nn.output import logits_of
from rade.nn.trace import Trace, extras, tracing


@dataclass(frozen=True, eq=False)
class Apart:
    """A call that gives some rows of the logits alone."""

    rows: Tensor
    run: Callable[[], Any]


def logits_and_sent(
    model: Module,
    run: Callable[[], Any],
    graph: Graph,
    head: str | Module | None,
    apart: Apart | None = None,
    through: bool = False,
) -> tuple[Tensor, Sent]:
    """What a call of the model gives in evaluation mode, with gradients.

    apart: the rows that gradients are needed for, if they are cheaper to run apart and everybody else without.
    through: whether what was sent has gradients, too.
    """
    with torch.enable_grad(), evaluating(model):
        with tracing(model) as trace, torch.set_grad_enabled(apart is None):
            logits = logits_of(run())
        if apart is not None:
            logits = logits.index_copy(0, apart.rows, logits_of(apart.run()))
        return logits, _sent(model, trace, graph, logits, head, through)


def _sent(model: Module, trace: Trace, graph: Graph, logits: Tensor, head: str | Module | None, through: bool) -> Sent:
    classes = logits.shape[1] if logits.dim() == 2 else 1
    part = model.get_submodule(head) if isinstance(head, str) else head
    conv, detached = trace.last
    inputs = trace.given if through else detached
    with torch.set_grad_enabled(through):
        return conv.sent(head_matrix(model, trace, classes, part), graph, inputs["x"], **extras(inputs))
