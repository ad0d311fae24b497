"""All that can be known of edges beside the graph's noise: raw and hidden features, common neighbors, degrees."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.noise.edges import EdgeEvidence
from rade.noise.evidence import DegreeEvidence, Evidence
from rade.noise.hidden import Nothing, hidden
from rade.noise.similarity import CommonNeighbors, Features, Similarity
from rade.wrapper.module import RADE


def every_evidence(model: RADE, *args: Any, generator: torch.Generator | None = None, **kwargs: Any) -> list[Evidence]:
    """One for each similarity that the model and its graph have, and one for degrees; none for a graph without edges.

    For ``estimate_noise(..., by_edge=every_evidence(model, x, edge_index))``, which then takes what validates best.

    Args:
        model: in evaluation mode.
        args, kwargs: what its forward takes.
        generator: of random pairs; by default one of seed 0 for each similarity.
    """
    x, graph = model.graph_of(*args, **kwargs)
    if graph.num_edges == 0:
        return []
    kinds: list[Similarity] = [Features(x)] if x is not None and has_features(graph, x) else []
    with suppress(Nothing):  # GAT without loops: its other evidence stays
        kinds.append(hidden(model, *args, **kwargs))
    kinds.append(CommonNeighbors())
    return [*(EdgeEvidence.of(graph, kind, source_for(graph, generator)) for kind in kinds), DegreeEvidence(graph)]


def has_features(graph: Graph, x: Tensor | None) -> bool:
    """Whether there is a row of features for each node."""
    return x is not None and x.dim() == 2 and x.shape[0] == graph.num_nodes


def source_for(graph: Graph, generator: torch.Generator | None) -> torch.Generator:
    """The given generator, or one of seed 0, so that equal graphs give equal estimates."""
    return torch.Generator(graph.device).manual_seed(0) if generator is None else generator
