"""What RADE needs to know of an aggregator: its coefficients on a graph and on a view, and their moments."""

from rade.moments.attention.attention import Attention, ScoredAttention
from rade.moments.base import Coefficients, Moments, Sent, Weights
from rade.moments.mean import Mean
from rade.moments.sum import Sum
from rade.moments.symmetric import Symmetric
from rade.moments.weighted import Weighted
from rade.moments.weighted_symmetric import WeightedSymmetric

__all__ = [
    "Attention",
    "Coefficients",
    "Mean",
    "Moments",
    "ScoredAttention",
    "Sent",
    "Sum",
    "Symmetric",
    "Weighted",
    "WeightedSymmetric",
    "Weights",
]
