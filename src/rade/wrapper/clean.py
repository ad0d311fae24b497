"""One pass over the input graph in evaluation mode, and what it tells rate control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Few:
    """The rows of a call that need gradients, where they are few: they are run apart from all that is sent.

    Attributes:
        run: a pass for these rows alone.
        rows: where they stand among the logits of the whole call.
    """

    run: Callable[[Adjacency], Tensor]
    rows: Tensor


def clean_pass(
    model: Module,
    run: Callable[[Adjacency], Tensor],
    graph: Graph,
    readout: Readout,
    nodes: Tensor | None = None,
    few: Few | None = None,
) -> CleanPass:
    """The same with gradients, and what the last convolution sent through the linear head.

    nodes: those of the logits' rows, where the call asks for some of them.
    few: which of these need gradients; all if None.
    """
    with torch.enable_grad(), evaluating(model):
        with tracing(model) as trace, torch.set_grad_enabled(few is None):
            logits = logits_of(run(graph))
        if few is not None:
            logits = logits.index_copy(0, few.rows, logits_of(few.run(graph)))
        classes = readout.scores(logits, graph, nodes).shape[1]
        return CleanPass(logits, graph, _sent(model, trace, graph, classes, readout), nodes)


@torch.no_grad()
def _sent(model: Module, trace: Trace, graph: Graph, classes: int, readout: Readout) -> Sent:
    head = model.get_submodule(readout.head) if isinstance(readout.head, str) else readout.head
    conv, inputs = trace.last
    return conv.sent(head_matrix(model, trace, classes, head), graph, inputs["x"], **trace.extras)
