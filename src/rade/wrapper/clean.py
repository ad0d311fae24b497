"""One pass over the input graph in evaluation mode, and what it tells rate control."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from rade.control.readout import Readout
from rade.control.regulariser import CleanPass
from rade.graph.graph import Graph
from rade.graph.nodes import nodes_of, picked
from rade.moments.base import Sent
from rade.nn.base import convolutions
from rade.nn.head import head_matrix
from rade.nn.trace import Trace, extras, tracing
from rade.wrapper.output import logits_of
from rade.wrapper.running import Running, evaluating


def clean_pass(running: Running, graph: Graph, readout: Readout, labelled: Tensor | None = None) -> CleanPass:
    """The logits with gradients, and what the last convolution sent through the linear head.

    labelled: rows of the logits that gradients are needed for, all if None. Where the call asks for some nodes and
    these rows hear few of all, they are run apart, and everybody else without gradients.
    """
    nodes = running.call.rows
    few = None
    if nodes is not None and labelled is not None and not readout.is_flat:  # Var(δ) needs gradients through everybody
        few = _few(running, graph, picked(nodes, labelled))
    with torch.enable_grad(), evaluating(running.model):
        with tracing(running.model) as trace, torch.set_grad_enabled(few is None):
            logits = logits_of(running(graph))
        if few is not None and labelled is not None:
            logits = logits.index_copy(0, labelled, logits_of(few(graph)))
        classes = readout.scores(logits, graph, nodes).shape[1]
        return CleanPass(logits, graph, _sent(running.model, trace, graph, classes, readout), nodes)


def _few(running: Running, graph: Graph, nodes: Tensor) -> Running | None:
    """A pass for these nodes alone, if gradients through what they hear are cheaper than through everybody."""
    if any(conv.hears_everybody for conv in convolutions(running.model).values()):
        return None
    return running.asking(nodes) if graph.neighborhood(nodes_of(nodes, graph.num_nodes)).few else None


def _sent(model: Module, trace: Trace, graph: Graph, classes: int, readout: Readout) -> Sent:
    """Detached, but where Var(δ) is all that the regulariser hangs on."""
    head = model.get_submodule(readout.head) if isinstance(readout.head, str) else readout.head
    conv, inputs = trace.last
    inputs = trace.given if readout.is_flat else inputs
    with torch.set_grad_enabled(readout.is_flat):
        return conv.sent(head_matrix(model, trace, classes, head), graph, inputs["x"], **extras(inputs))
