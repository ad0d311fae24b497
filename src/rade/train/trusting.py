"""Trust in the single edges of a data set's graph: by the similarity of their ends, or by degrees."""

from collections.abc import Callable

import torch

from rade.data import Dataset
from rade.graph.graph import Graph
from rade.noise import CommonNeighbors, DegreeEvidence, EdgeEvidence, Evidence, Features, Similarity, share_of
from rade.train.errors import SettingsError
from rade.view.rates import Rates
from rade.view.trust import Trust

KINDS: dict[str, Callable[[Dataset, Graph], Evidence]] = {
    "features": lambda dataset, graph: _alike(graph, Features(dataset.graphs[0].x)),
    "common-neighbors": lambda dataset, graph: _alike(graph, CommonNeighbors()),
    "degrees": lambda dataset, graph: DegreeEvidence(graph),
}


def trust_in(dataset: Dataset, kind: str, noise: Rates) -> Trust:
    """How far each edge is trusted where noise has these rates; the same for the same graph."""
    require_one_graph(dataset, "trust in single edges needs")
    graph = graph_of(dataset)
    return KINDS[kind](dataset, graph).trust(share_of(graph, noise))


def _alike(graph: Graph, similarity: Similarity) -> Evidence:
    """The similarities of a graph's edges and of random pairs, drawn from a seed of their own."""
    return EdgeEvidence.of(graph, similarity, torch.Generator().manual_seed(0))


def graph_of(dataset: Dataset) -> Graph:
    """The one graph of a data set."""
    return Graph.from_edge_index(dataset.graphs[0].edge_index, dataset.graphs[0].num_nodes)


def require_one_graph(dataset: Dataset, what: str) -> None:
    """Refuse a data set of many graphs."""
    if dataset.level != "node" or len(dataset.graphs) != 1:
        raise SettingsError(f"{what} a data set of one graph, not {dataset.name}; give rates P,Q alone")
