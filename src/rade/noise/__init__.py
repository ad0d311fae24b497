"""Graphs with wrong edges: how many are spurious, which ones, and how sure that is."""

from rade.noise.edges import EdgeEvidence
from rade.noise.estimate import estimate_noise
from rade.noise.every import every_evidence
from rade.noise.evidence import DegreeEvidence, Evidence
from rade.noise.guesses import NoiseEstimate
from rade.noise.hidden import hidden
from rade.noise.shares import rates_of, share_of
from rade.noise.similarity import CommonNeighbors, Features, Similarity, cosine
from rade.noise.two_groups import TwoGroups

__all__ = [
    "CommonNeighbors",
    "DegreeEvidence",
    "EdgeEvidence",
    "Evidence",
    "Features",
    "NoiseEstimate",
    "Similarity",
    "TwoGroups",
    "cosine",
    "estimate_noise",
    "every_evidence",
    "hidden",
    "rates_of",
    "share_of",
]
