"""Undoing noise in a graph: every pair counts (A'_ij − q)/(1−p−q), on average 1 on clean edges and 0 elsewhere."""

from __future__ import annotations

from rade.graph.operator import Kernel, Operator, over_pairs
from rade.view.observed import Observed
from rade.view.rates import number


def signed_pairs(observed: Observed, kernel: Kernel) -> Operator:
    """Σ_{j≠i} K_ij (A'_ij − q)/(1−p−q) x_j: observed edges count more than one, other pairs a little less than 0."""
    q, gain = number(observed.noise.q), observed.gain
    return over_pairs(observed.graph, kernel, (1.0 - q) * gain, -q * gain)
