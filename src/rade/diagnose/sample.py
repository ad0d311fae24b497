"""Which nodes and pairs are looked at: anchors, all distances from them, and some partners of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from rade.diagnose.network import matrix
from rade.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Sample:
    """Anchors [a], the distance of every node from each (−1: not connected, or of another graph), and pairs."""

    anchors: Tensor  # [a]
    distance: Tensor  # [a, n] int, −1 where there is no path
    inside: Tensor  # [a, n] bool: nodes of the anchor's graph
    source: Tensor  # [k] anchor of each pair
    target: Tensor  # [k] another node of its graph, connected to it

    @property
    def apart(self) -> float:
        """The share of pairs of an anchor and another node of its graph that no path connects."""
        pairs = int(self.inside.sum()) - self.anchors.numel()
        return float((self.inside & (self.distance < 0)).sum()) / max(pairs, 1)


def sample(graph: Graph, anchors: int, partners: int, generator: torch.Generator) -> Sample:
    """``anchors`` different nodes, all if there are fewer, and up to ``partners`` connected nodes of each."""
    chosen = torch.randperm(graph.num_nodes, generator=generator)[:anchors].sort().values
    found = shortest_path(matrix(graph), unweighted=True, indices=chosen.numpy())
    reached = torch.from_numpy(found)
    distance = torch.where(reached.isinf(), -1.0, reached).long()
    source, target = [], []
    for node, steps in zip(chosen, distance):
        others = (steps > 0).nonzero().squeeze(1)
        picked = others[torch.randperm(others.numel(), generator=generator)[:partners]]
        source.append(node.expand(picked.numel()))
        target.append(picked)
    inside = graph.batch[chosen][:, None] == graph.batch
    empty = torch.zeros(0, dtype=torch.long)
    return Sample(chosen, distance, inside, torch.cat([empty, *source]), torch.cat([empty, *target]))
