"""Aggregators: their coefficients, and the moments of these over random views."""

from rade.moments.attention.attention import Attention, ScoredAttention
from rade.moments.base import Coefficients, Moments, Slopes, Weights
from rade.moments.normalised import Normalised
from rade.moments.weighted import Weighted, WeightedSymmetric

__all__ = [
    "Attention",
    "Coefficients",
    "Moments",
    "Normalised",
    "ScoredAttention",
    "Slopes",
    "Weighted",
    "WeightedSymmetric",
    "Weights",
]
