"""What tells where the spurious edges of a graph are, beside their number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rade.graph.graph import Graph
from rade.view.trust import Trust


class Evidence(ABC):
    """Gives a trust for any share of noise.

    Attributes:
        name: by which an estimate tells what it rests on.
        told: the share of spurious edges that it tells by itself, without labels; None if it tells none.
    """

    name: str
    told: float | None = None

    @abstractmethod
    def trust(self, share: float) -> Trust:
        """How far edges are trusted if ``share`` of them are spurious."""


@dataclass(frozen=True, eq=False)
class DegreeEvidence(Evidence):
    """Spurious edges prefer nodes of high degree, as those of a random graph of the same degrees do."""

    graph: Graph
    name: str = "degrees"

    def trust(self, share: float) -> Trust:
        """The same for every share: edges are trusted alike, their ends are not."""
        return Trust.by_degree(self.graph)
