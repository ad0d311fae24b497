"""Graphs with wrong edges: how many are spurious, which ones, and how sure that is."""

from rade.noise.edges import EdgeEvidence
from rade.noise.estimate import NoiseEstimate, estimate_noise, rates_of
from rade.noise.similarity import cosine
from rade.noise.two_groups import TwoGroups

__all__ = ["EdgeEvidence", "NoiseEstimate", "TwoGroups", "cosine", "estimate_noise", "rates_of"]
