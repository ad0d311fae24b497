"""Rates that adapt: the variance of the logits, the regulariser, and the rules that move p and q."""

from rade.control.evidence import Evidence, Logits
from rade.control.labelled import Labelled
from rade.control.noise_ratio import NoiseRatio
from rade.control.pooled import pooled_variance
from rade.control.readout import Readout
from rade.control.regulariser import CleanPass, Regulariser, regulariser
from rade.control.rules import Constant, GradNorm, Rule
from rade.control.state import RateState
from rade.control.variance import LogitVariance, variance

__all__ = [
    "CleanPass",
    "Constant",
    "Evidence",
    "GradNorm",
    "Labelled",
    "LogitVariance",
    "Logits",
    "NoiseRatio",
    "RateState",
    "Readout",
    "Regulariser",
    "Rule",
    "pooled_variance",
    "regulariser",
    "variance",
]
