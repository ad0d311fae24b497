"""One pass over the input graph in evaluation mode, and what it tells rate control."""

from __future__ import annotations

from torch import Tensor

from rade.control.readout import Readout
from rade.control.regulariser import CleanPass
from rade.graph.graph import Graph
from rade.graph.nodes import nodes_of, picked
from rade.nn.base import convolutions
from rade.nn.last import Apart, logits_and_sent
from rade.wrapper.running import Running


def clean_pass(running: Running, graph: Graph, readout: Readout, labelled: Tensor | None = None) -> CleanPass:
    """The logits with gradients, and what the last convolution sent through the linear head.

    labelled: rows of the logits that gradients are needed for, all if None. Where the call asks for some nodes and
    these rows hear few of all, they are run apart, and everybody else without gradients.
    """
    nodes, run = running.call.rows, running.on(graph)
    apart = None if nodes is None or labelled is None else _apart(running, graph, nodes, labelled)
    if readout.is_flat:  # then Var(δ) is all that the regulariser hangs on, and needs gradients through everybody
        logits, sent = logits_and_sent(running.model, run, graph, readout.head, through=True)
    else:
        logits, sent = logits_and_sent(running.model, run, graph, readout.head, apart)
    return CleanPass(logits, graph, sent, nodes)


def _apart(running: Running, graph: Graph, nodes: Tensor, labelled: Tensor) -> Apart | None:
    """A pass for these rows alone, if gradients through what they hear are cheaper than through everybody."""
    if any(conv.hears_everybody for conv in convolutions(running.model).values()):
        return None
    few = picked(nodes, labelled)
    cheaper = graph.neighborhood(nodes_of(few, graph.num_nodes)).few
    return Apart(labelled, running.asking(few).on(graph)) if cheaper else None
