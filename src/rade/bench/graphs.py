"""Uniform random graphs of a given size."""

from __future__ import annotations

import torch

from rade.graph.graph import Graph
from rade.graph.pairs import fixed_positions, unrank_pairs

ARXIV = (169_343, 1_157_799)  # nodes and undirected edges of ogbn-arxiv


def random_graph(nodes: int, edges: int, generator: torch.Generator) -> Graph:
    """``edges`` of all pairs of ``nodes`` nodes, without replacement."""
    rank = fixed_positions(nodes * (nodes - 1) // 2, edges, generator, torch.device("cpu"))
    low, high = unrank_pairs(rank, torch.tensor(nodes))
    return Graph.from_edge_index(torch.stack([torch.cat([low, high]), torch.cat([high, low])]), nodes)
