"""On which graphs and at which rates an aggregator is checked, and the sentence where it fails."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rade.graph.graph import Graph
from rade.testing.aggregators import Aggregator
from rade.testing.oracle import GRAPHS, AllViews, all_views, error
from rade.view.law import Law, Variant
from rade.view.rates import Rates


@dataclass(frozen=True)
class Case:
    """One of ``GRAPHS`` at rates (p, q)."""

    name: str
    p: float
    q: float

    @property
    def graph(self) -> Graph:
        """The graph of this name."""
        return GRAPHS[self.name]

    def law(self, variant: Variant = Variant.OF) -> Law:
        """A new law that remembers nothing."""
        return Law(self.graph, Rates(self.p, self.q), variant)

    def views(self, variant: Variant = Variant.OF) -> AllViews:
        """All views of the graph."""
        return all_views(self.name, self.p, self.q).under(variant)

    def __str__(self) -> str:
        return f"graph {self.name!r} at p={self.p}, q={self.q}"


CASES = (
    Case("path", 0.3, 0.2),  # nothing special: degrees one and two, both rates inside
    Case("star", 0.9, 0.6),  # a hub that loses nearly all edges, and more additions than edges
    Case("near-clique", 0.5, 0.1),  # a single non-edge: for most nodes the sum over non-neighbors is rounding error
    Case("two-components", 0.0, 0.3),  # p = 0: no edge varies; additions join what was apart
    Case("isolated", 0.4, 0.0),  # q = 0: a node that never hears anybody
    Case("isolated", 0.25, 1.0),  # q = 1: every non-edge is there for certain, none varies
    Case("batch", 0.3, 0.2),  # two graphs of different size: no pair across, moments per size
    Case("directed", 0.3, 0.2),  # directed edges, of which one goes both ways: the directions are drawn apart
    Case("directed-sources", 0.6, 0.3),  # nodes that send and hear nobody: without loops their degree may be 0
    Case("directed-batch", 0.3, 0.2),  # two directed graphs: 4,096 views
    Case("cycle-chord", 0.5, 0.1),  # equal degrees on edges and on non-edges; 32,768 views
)
SMALL = CASES[:-1]  # for what asks every view for all its pairs
BATCH, DIRECTED, DIRECTED_BATCH = CASES[6], CASES[7], CASES[9]
INSIDE = (CASES[0], BATCH, DIRECTED)  # both rates can move up and down


def affordable(aggregator: Aggregator) -> tuple[Case, ...]:
    """All cases; without that of 32,768 views where moments are costly, or coefficients have heads."""
    return SMALL if aggregator.costly or aggregator.heads is not None else CASES


def expect(
    found: Tensor, target: Tensor, tolerance: float, what: str, case: object, scale: Tensor | None = None
) -> None:
    """Raise an `AssertionError` that names the case and the error where ``found`` is too far from ``target``."""
    if found.shape != target.shape:
        raise AssertionError(f"{what}, {case}: expected shape {list(target.shape)}, got {list(found.shape)}")
    off = error(found, target, scale)
    if not off <= tolerance:  # an error that is no number fails as well
        raise AssertionError(f"{what}, {case}: relative error {off:.1e}, allowed {tolerance:.0e}")
