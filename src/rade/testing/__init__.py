"""Checks for an aggregator of your own: every promise that RADE builds on, against all views of small graphs.

Each of ``CHECKS`` takes an `Aggregator` and raises an `AssertionError` that says where it breaks its promise; with
pytest, parametrize over them. No pytest is needed here.

>>> from rade.moments import Normalised
>>> mine = Aggregator("mine", plain(Normalised.sum), tolerance=1e-10)
>>> CHECKS["moments_are_those_of_all_views"](mine)
"""

from rade.testing.aggregators import ALL, Aggregator, plain
from rade.testing.checks import CHECKS
from rade.testing.oracle import CASES, GRAPHS, AllViews, Carry, Case, undirected

__all__ = ["ALL", "CASES", "CHECKS", "GRAPHS", "Aggregator", "AllViews", "Carry", "Case", "plain", "undirected"]
