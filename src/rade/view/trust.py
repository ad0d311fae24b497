"""What is known of single edges of a noisy graph, beside the rates of noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rade.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Trust:
    """How far each observed edge is trusted, from what is known beside the graph; by default all are, alike.

    Attributes:
        edges: a weight for each observed edge, [E] in the order of the graph; or one for all.
        spurious: what a spurious edge weighs on average.
        real: what a real edge weighs on average.
        ends: factors a [n] of mean 1 by which nodes differ: between i and j spurious edges weigh, or are frequent,
            a_i a_j times the average. Noise that prefers some nodes, by degree say, is still of rank one.
    """

    edges: Tensor | float = 1.0
    spurious: float = 1.0
    real: float = 1.0
    ends: Tensor | float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.spurious <= self.real or self.real == 0.0:
            raise ValueError(
                "real edges must weigh at least as much as spurious ones, and more than nothing, got "
                f"{self.real:g} and {self.spurious:g} on average"
            )

    @property
    def alike(self) -> bool:
        """Whether all edges are trusted fully and alike; also true of copies."""
        values = (self.edges, self.spurious, self.real, self.ends)
        return not any(isinstance(value, Tensor) for value in values) and set(values) == {1.0}

    @staticmethod
    def by_degree(graph: Graph, power: float = 1.0) -> Trust:
        """For spurious edges that prefer nodes of high degree: q_ij ∝ (d_i d_j)^power, with observed degrees.

        With power 1 the mean of noise is that of a random graph of the same degrees, d_i d_j/2m times its share.
        """
        if graph.num_edges == 0:
            return Trust()
        factors = graph.degree.double().pow(power)
        return Trust(ends=factors / factors.mean())

    def check(self, graph: Graph) -> None:
        """Refuse weights of another graph."""
        for name, values, size in (("edges", self.edges, graph.pattern.size), ("ends", self.ends, graph.num_nodes)):
            if isinstance(values, Tensor) and values.shape != (size,):
                raise ValueError(
                    f"trust was found for another graph: expected {size} values for {name}, got {list(values.shape)}; "
                    "estimate it again on this one"
                )

    def weights(self, size: int, device: torch.device) -> Tensor:
        """The weight of every edge, [E] in double precision."""
        return _full(self.edges, size, device)

    def factors(self, size: int, device: torch.device) -> Tensor:
        """The factor of every node, [n] in double precision."""
        return _full(self.ends, size, device)


def _full(values: Tensor | float, size: int, device: torch.device) -> Tensor:
    return torch.as_tensor(values, dtype=torch.double, device=device).expand(size)
