"""What a trained network makes of single nodes: features in which similar nodes are those of like labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.nn.trace import tracing
from rade.noise.similarity import Features
from rade.view.law import Law
from rade.wrapper.inference import Inference, Run
from rade.wrapper.module import RADE


class Nothing(ValueError):
    """A model makes nothing of nodes without neighbors."""


@dataclass(frozen=True)
class WithoutEdges(Inference):
    """One pass on the same nodes with no edge at all."""

    def __call__(self, run: Run, law: Law) -> Any:
        graph = law.graph
        none = torch.empty((2, 0), dtype=torch.long, device=graph.device)
        return run(Graph.from_edge_index(none, graph.num_nodes, graph.batch, graph.ptr))


@torch.no_grad()
def hidden(model: RADE, *args: Any, **kwargs: Any) -> Features:
    """The output of the last convolution on the nodes alone, as a similarity for `EdgeEvidence.of`.

    Without edges, because a spurious edge makes the hidden features of its ends alike: it would testify for itself.
    Convolutions that hear neighbors only (GAT without loops) have nothing to say of nodes alone.
    """
    with tracing(model.wrapped) as trace:
        model.by(WithoutEdges())(*args, **kwargs)
    found: Tensor | None = trace.output
    if found is None or not bool(found.any()):
        raise Nothing(
            "hidden features of nodes without edges are all zero, so that they tell nothing of edges: the model's "
            "convolutions hear neighbors only; take raw features or rade.noise.CommonNeighbors()"
        )
    return Features(found.flatten(1), "hidden features")
