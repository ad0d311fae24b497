"""Trust in single edges from the similarity of their ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.graph import Graph
from rade.noise.evidence import Evidence
from rade.noise.similarity import Features, Similarity, partners
from rade.noise.two_groups import TwoGroups
from rade.view.trust import Trust

EACH = 32  # random partners of every node
PRIOR = 0.1  # weight of the common mean in the estimate for one node, in which 32 partners leave much chance


@dataclass(frozen=True, eq=False)
class EdgeEvidence(Evidence):
    """Similarities of a graph's observed edges and of random pairs, ready to give a trust for any share of noise.

    >>> from rade.testing import undirected
    >>> graph = undirected([(0, 1), (2, 3)], 4)
    >>> EdgeEvidence.of(graph, torch.eye(4)).trust(0.0).edges
    tensor([1., 1., 1., 1.], dtype=torch.float64)
    """

    graph: Graph
    groups: TwoGroups
    edge_bins: Tensor  # [E]
    pair_bins: Tensor  # [P] of random partners
    owner: Tensor  # [P] the node whose partner it is
    name: str = "features"  # of the similarity

    @staticmethod
    def of(graph: Graph, by: Tensor | Similarity, generator: torch.Generator | None = None) -> EdgeEvidence:
        """By a similarity, e.g. `CommonNeighbors()`; features [n, F], raw or hidden ones, stand for their cosine."""
        similarity = Features(by) if isinstance(by, Tensor) else by
        pairs = partners(graph, EACH, generator)
        edges, random = similarity_of_edges(graph, similarity), similarity.of(graph, pairs)
        groups = TwoGroups.of(edges, random)
        return EdgeEvidence(graph, groups, groups.bin_of(edges), groups.bin_of(random), pairs[0], similarity.name)

    @property
    def told(self) -> float:  # type: ignore[override]
        """By similarities alone: an upper bound."""
        return self.groups.share

    def trust(self, share: float) -> Trust:
        """P(real | similarity) as the weight of each edge if ``share`` of them are spurious, and what is left of noise.

        A spurious edge weighs E₀[P] on average, over random pairs; those of nodes that resemble many others weigh
        more, which is kept as a factor of either end. A real one weighs (E_f[P] − π E₀[P])/(1−π).
        """
        real = self.groups.real(share)
        # A sum of shares may be 1 and a rounding error.
        seen, spurious = (min(float(law @ real), 1.0) for law in (self.groups.edges, self.groups.random))
        mean = max((seen - share * spurious) / (1.0 - share), seen)  # less would be no mean of a law: share too large
        return Trust(real[self.edge_bins], spurious, min(max(mean, spurious), 1.0), self._ends(real))

    def _ends(self, real: Tensor) -> Tensor:
        """How much more than others a node's random partners are trusted, mean 1, [n]."""
        nodes = self.graph.num_nodes
        total = real.new_zeros(nodes).index_add(0, self.owner, real[self.pair_bins])
        count = torch.bincount(self.owner, minlength=nodes)
        mean = total.sum() / count.sum()
        own = torch.where(count > 0, total / count.clamp(min=1), mean)
        ends = (own + PRIOR * mean) / (1.0 + PRIOR)
        return ends / ends.mean() if float(mean) > 0 else torch.ones_like(ends)


def similarity_of_edges(graph: Graph, similarity: Similarity) -> Tensor:
    """Of every edge, [E] in the order of the graph; computed once for a pair that is drawn as one."""
    pattern, entries = graph.pattern, graph.entries
    found = similarity.of(graph, torch.stack([pattern.source[entries], pattern.target[entries]]))
    return graph.directions.spread(found, entries, pattern)
