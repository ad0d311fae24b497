"""Aggregators: their coefficients, the moments of these over random views, and what one of your own is made of."""

from rade.distribution import Distribution
from rade.moments.attention.attention import Attention
from rade.moments.base import Coefficients, Moments, Slopes, Weights
from rade.moments.degrees import EDGE, LOOP, NONEDGE, degree_moments
from rade.moments.normalised import Normalised
from rade.moments.weighted import Weighted, WeightedSymmetric
from rade.sums import Sums, over_nonedges
from rade.views import View

__all__ = [
    "EDGE",
    "LOOP",
    "NONEDGE",
    "Attention",
    "Coefficients",
    "Distribution",
    "Moments",
    "Normalised",
    "Slopes",
    "Sums",
    "View",
    "Weighted",
    "WeightedSymmetric",
    "Weights",
    "degree_moments",
    "over_nonedges",
]
