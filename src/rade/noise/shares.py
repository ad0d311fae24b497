"""From the share of spurious edges to the rates of noise, and back."""

from __future__ import annotations

from rade.graph.graph import Graph
from rade.view.rates import Rates, number


def rates_of(graph: Graph, share: float, drop: float = 0.0) -> Rates:
    """The rates that make ``share`` of the observed edges spurious, where ``drop`` of the real ones are missing.

    >>> from rade.testing import undirected
    >>> rates_of(undirected([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 5), share=0.2)
    Rates(p=0.0, q=0.16666666666666666)
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"the share of spurious edges must lie in [0, 1), got {share:g}")
    if not 0.0 <= drop < 1.0:
        raise ValueError(f"the rate of missing edges must lie in [0, 1), got {drop:g}; none would be left at 1")
    clean = graph.num_edges * (1.0 - share) / (1.0 - drop)
    return Rates(drop, min(share * graph.num_edges / max(graph.num_pairs - clean, 1.0), 1.0))


def share_of(graph: Graph, noise: Rates) -> float:
    """The share of observed edges that are spurious at these rates, the inverse of `rates_of`.

    >>> from rade.testing import undirected
    >>> graph = undirected([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 5)
    >>> round(share_of(graph, rates_of(graph, 0.2, drop=0.1)), 12)
    0.2
    """
    p, q, edges = number(noise.p), number(noise.q), max(graph.num_edges, 1)
    # share = q (pairs − clean)/edges with clean = edges (1 − share)/(1 − p)
    share = (q * graph.num_pairs / edges - q / (1.0 - p)) / (1.0 - q / (1.0 - p))
    return min(max(share, 0.0), 1.0 - 1e-9)
