"""One pass over the input graph in evaluation mode, and what it tells rate control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Module

from rade.control.readout import Readout
from rade.control.regulariser import CleanPass
from rade.graph.adjacency import Adjacency
from rade.graph.graph import Graph
from rade.moments.base import Sent
from rade.wrapper.head import head_matrix
from rade.wrapper.output import logits_of
from rade.wrapper.trace import Trace, tracing


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


def clean_logits(model: Module, run: Callable[[Adjacency], Tensor], adjacency: Adjacency) -> Tensor:
    """The logits on the input graph, or another adjacency, in evaluation mode and without gradients."""
    with torch.no_grad(), evaluating(model):
        return logits_of(run(adjacency))


def clean_pass(model: Module, run: Callable[[Adjacency], Tensor], graph: Graph, readout: Readout) -> CleanPass:
    """The same with gradients, and what the last convolution sent through the linear head."""
    with torch.enable_grad(), evaluating(model):
        with tracing(model) as trace:
            logits = logits_of(run(graph))
        classes = readout.scores(logits, graph).shape[1]
        return CleanPass(logits, graph, _sent(model, trace, graph, classes, readout))


@torch.no_grad()
def _sent(model: Module, trace: Trace, graph: Graph, classes: int, readout: Readout) -> Sent:
    head = model.get_submodule(readout.head) if isinstance(readout.head, str) else readout.head
    conv, inputs = trace.last
    return conv.sent(head_matrix(model, trace, classes, head), graph, inputs["x"], **trace.extras)
